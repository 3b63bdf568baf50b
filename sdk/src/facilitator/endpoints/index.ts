/** Every endpoint of the Facilitator's HTTP API, by resource. */
import type { EndpointSpec } from "./endpoint";
import * as figures from "./figures";
import * as payer from "./payer";
import * as payments from "./payments";
import * as providers from "./providers";
import * as records from "./records";
import * as subscriptions from "./subscriptions";

export { API_TAGS, type EndpointSpec, networkQuerySchema } from "./endpoint";
export * from "./figures";
export type { EndpointAt, EndpointKey } from "./keyed";
export * from "./payer";
export * from "./payments";
export * from "./providers";
export * from "./records";
export * from "./subscriptions";

/** All of them. */
export const ENDPOINTS: readonly EndpointSpec[] = [payments, subscriptions, providers, figures, payer, records].flatMap(
  (resources) =>
    Object.values<Readonly<Record<string, EndpointSpec>>>(resources).flatMap((group) => Object.values(group)),
);
