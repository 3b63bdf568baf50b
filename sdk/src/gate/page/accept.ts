/**
 * Reads the header `Accept` (RFC 9110, section 12.5.1): whether a client prefers a page for people to JSON. Clients that
 * do not say so get JSON.
 */

interface MediaRange {
  readonly type: string;
  readonly quality: number;
}

/** A longer header belongs to no browser. */
const MAX_LENGTH = 2_048;

const QUALITY = /^(?:0(?:\.[0-9]{0,3})?|1(?:\.0{0,3})?)$/;

/** Returns whether `text/html` has a greater quality than `application/json`. */
export function prefersHtml(accept: string | undefined): boolean {
  if (accept === undefined || accept.length > MAX_LENGTH) return false;
  const ranges = accept.split(",").flatMap(rangeOf);
  return qualityOf("text/html", ranges) > qualityOf("application/json", ranges);
}

/** @returns nothing for a range whose quality is malformed, or that asks for a variant by another parameter */
function rangeOf(text: string): readonly MediaRange[] {
  const [type = "", ...parameters] = text.split(";").map((part) => part.trim().toLowerCase());
  let quality = 1;
  for (const parameter of parameters) {
    const [name = "", value = ""] = parameter.split("=").map((part) => part.trim());
    if (name === "charset") continue;
    if (name !== "q" || !QUALITY.test(value)) return [];
    quality = Number(value);
  }
  return [{ type, quality }];
}

/** The most specific range decides; of two equal ones the better. */
function qualityOf(type: string, ranges: readonly MediaRange[]): number {
  const family = `${type.split("/", 1)[0]}/*`;
  for (const specific of [type, family, "*/*"]) {
    const fitting = ranges.filter((range) => range.type === specific);
    if (fitting.length > 0) return Math.max(...fitting.map(({ quality }) => quality));
  }
  return 0;
}
