/** The dialects that every gate reads. */
import type { BodyDialect, Dialect } from "../core/dialect";
import { x402 } from "./x402";

/** The first writes the body of a 402. */
export type Dialects = readonly [BodyDialect, ...Dialect[]];

export const DIALECTS: Dialects = [x402];
