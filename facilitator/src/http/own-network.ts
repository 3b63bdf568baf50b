/** A request that names a network has to name this one: a signature for another chain would be judged against the wrong one. */
import { findNetwork, InvalidRequest, type Network } from "turnpike/protocol";

/** @throws InvalidRequest */
export function requireOwnNetwork(name: string | undefined, own: Network): void {
  if (name === undefined || findNetwork(name, [own])?.chainId === own.chainId) return;
  throw new InvalidRequest(`network: this Facilitator serves ${own.name}`, {
    details: { field: "network", in: "body", network: own.name },
  });
}
