/**
 * Turnpike for providers and agents, on Node. `paymentGate` here is Express and node middleware; `turnpike/gate/*` has
 * others. For a page, bundlers take the agent alone.
 */

export * from "./browser";
export * from "./gate";
export { paymentGate } from "./gate/express";
