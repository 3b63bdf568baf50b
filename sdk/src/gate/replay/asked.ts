/** What a request asks of its answer's form. It is kept with the answer, inside the seal, so that proxies may change it. */

/** Each as it came, without white space; of fields that are absent nothing. */
export interface Asked {
  readonly range?: string;
  readonly ifRange?: string;
  readonly acceptEncoding?: string;
}

/** The part of a request that asks. */
export interface Asking {
  readonly method: string;
  /** `name` in lower case */
  header(name: string): string | undefined;
}

const MAX_LENGTH = 512;

/** @returns undefined for what is too long to keep: an answer is then judged by its own headers alone */
export function askedBy(request: Asking): Asked | undefined {
  // Other methods have no ranges.
  const isGet = request.method === "GET";
  const asked = {
    range: isGet ? compact(request.header("range")) : undefined,
    ifRange: isGet ? compact(request.header("if-range")) : undefined,
    acceptEncoding: compact(request.header("accept-encoding")),
  };
  const given = Object.entries(asked).filter(([, value]) => value !== undefined);
  if (given.some(([, value]) => (value?.length ?? 0) > MAX_LENGTH)) return undefined;
  return Object.fromEntries(given);
}

const compact = (value: string | undefined): string | undefined => value?.replaceAll(/[ \t]+/g, "");

export const isSameAsk = (kept: Asked | undefined, asked: Asked | undefined): boolean =>
  kept !== undefined &&
  asked !== undefined &&
  kept.range === asked.range &&
  kept.ifRange === asked.ifRange &&
  kept.acceptEncoding === asked.acceptEncoding;
