/** The dialects that a provider's gates read. */

import type { ProviderOptions } from "../core/options";
import type { BodyDialect, Dialect } from "./dialect";
import { mpp } from "./mpp";
import { x402 } from "./x402";

/** The first writes the body of a 402. */
export type Dialects = readonly [BodyDialect, ...Dialect[]];

export const DIALECTS: Dialects = [x402];

/** Returns those that a provider sells by. */
export const dialectsOf = ({ mpp: header }: Pick<ProviderOptions, "mpp">): Dialects =>
  header === undefined ? DIALECTS : [...DIALECTS, mpp(header)];
