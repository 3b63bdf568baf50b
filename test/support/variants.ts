/** Of the variants of one kind, `.ci/run` keeps the first; VARIANTS=all, which `npm run test:deep` sets, runs all. */
export const isEveryVariant = process.env.VARIANTS === "all";

/** @param kept how many `.ci/run` keeps */
export const variants = <Variant>(all: readonly Variant[], kept = 1): readonly Variant[] =>
  isEveryVariant ? all : all.slice(0, kept);

/** A browser's test at each width, of which `.ci/run` keeps the first. */
export const atWidths = (widths: readonly number[], title: string, run: (width: number) => Promise<void>): void => {
  for (const width of variants(widths)) it(`${title}, ${width} wide`, () => run(width));
};
