/** Draws a chart's bars or lines, and describes the ones under the pointer. Loaded when the first chart is shown. */
import uPlot from "uplot";
import type { ChartProps, Series } from "./chart";

const DAY_SEC = 86_400;
const FONT = "12px system-ui, sans-serif";
const bars = uPlot.paths.bars?.({ size: [0.8, 40], radius: 0.15 });
const wideBars = uPlot.paths.bars?.({ size: [0.96, 64], radius: 0.1 });
const steps = uPlot.paths.stepped?.({ align: 1 });

interface PlotProps extends Pick<ChartProps, "times" | "formatAt"> {
  /** of the axis over time */
  labels(ticks: readonly number[], step: number): string[];
  /** of the axis of values */
  readonly write: (value: number) => string;
  readonly kind: "bars" | "line";
  /** without those of zeros alone */
  readonly shown: readonly Series[];
  readonly behind: Series | undefined;
  readonly height: number;
}

/** @param box says what is under the pointer @returns what takes it away */
export function plotOf(
  element: HTMLElement,
  box: HTMLElement,
  { kind, times, shown, behind, height, formatAt, labels, write }: PlotProps,
): () => void {
  const drawn = behind ? [...shown, behind] : shown;
  // A canvas knows no variables: the box is asked for what the scheme makes of one.
  const color = (name: string): string => {
    box.style.color = `var(${name})`;
    const { color: found } = getComputedStyle(box);
    box.style.color = "";
    return found;
  };
  // Half a bar of space at either end.
  const half = kind === "bars" ? ((times[1] ?? 0) - (times[0] ?? 0)) / 2 : 0;
  const layers = kind === "bars" ? stacked(shown).reverse() : shown.map((one) => ({ ...one, tops: one.values }));
  const behindBars = behind && { fill: color(behind.color), width: 0, ...(wideBars && { paths: wideBars }) };
  const isWhole = shown.every(({ values }) => values.every(Number.isInteger));
  const draw = (): uPlot => {
    const axis = {
      stroke: color("--faint"),
      font: FONT,
      grid: { stroke: color("--line"), width: 1 },
      ticks: { show: false },
    };
    return new uPlot(
      {
        width: element.clientWidth,
        height,
        legend: { show: false },
        tzDate: (at) => uPlot.tzDate(new Date(at * 1_000), "UTC"),
        cursor: { y: false, drag: { x: false }, points: { show: false } },
        scales: {
          x: { time: true, range: (_, min, max) => [min - half, max + half] },
          y: { range: (_, __, max) => [0, (max ?? 0) * 1.08 || 1] },
        },
        axes: [
          {
            ...axis,
            grid: { show: false },
            size: 28,
            space: 72,
            values: (_, ticks, __, ___, step) => labels(ticks, step),
          },
          {
            ...axis,
            size: 56,
            ...(isWhole && {
              incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 1e7],
            }),
            values: (_, ticks) => ticks.map((tick) => write(tick)),
          },
        ],
        series: [
          {},
          ...(behindBars ? [{ ...behindBars, points: { show: false } }] : []),
          // The tallest first: each later one covers the lower part of it.
          ...layers.map(({ color: name }) => {
            const ink = color(name);
            return kind === "bars"
              ? { fill: ink, stroke: ink, width: 0, ...(bars && { paths: bars }), points: { show: false } }
              : {
                  fill: `color-mix(in srgb, ${ink} 18%, transparent)`,
                  stroke: ink,
                  width: 2,
                  ...(steps && { paths: steps }),
                  points: { show: false },
                };
          }),
        ],
        hooks: { setCursor: [(plot) => point(plot)] },
      },
      (kind === "bars"
        ? [[...times], ...(behind ? [behind.values] : []), ...layers.map(({ tops }) => tops)]
        : // The last value holds for its day too.
          [
            [...times, (times.at(-1) ?? 0) + DAY_SEC],
            ...layers.map(({ tops }) => [...tops, tops.at(-1) ?? 0]),
          ]) as uPlot.AlignedData,
      element,
    );
  };

  function point(plot: uPlot): void {
    const { idx: found, left = -1 } = plot.cursor;
    const idx = Math.min(found ?? -1, times.length - 1);
    const at = times[idx];
    box.hidden = at === undefined || left < 0;
    if (at === undefined) return;
    const lines = drawn.flatMap(({ name, texts, values }) => (values[idx] ? [`${name}: ${texts[idx]}`] : []));
    box.textContent = [formatAt(at), ...(lines.length > 0 ? lines : ["none"])].join("\n");
    // On the side with enough space.
    const width = element.clientWidth;
    const place = left + 72;
    box.style.left = `${place + box.offsetWidth > width ? Math.max(0, left + 40 - box.offsetWidth) : place}px`;
  }

  let plot = draw();
  const again = (): void => {
    plot.destroy();
    plot = draw();
  };
  const resized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
  resized.observe(element);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", again);
  return () => {
    resized.disconnect();
    dark.removeEventListener("change", again);
    plot.destroy();
  };
}

/** A series of zeros is not drawn: it would show at the edges of the one that covers it. */
function stacked(series: readonly Series[]): { color: string; tops: (number | null)[] }[] {
  let below: number[] = [];
  return series.map(({ color, values }) => {
    below = values.map((value, index) => value + (below[index] ?? 0));
    const tops = below.map((top, index) => (values[index] ? top : null));
    return { color, tops };
  });
}
