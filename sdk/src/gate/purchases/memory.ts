import { memoryCells } from "../cells/memory";
import type { ClaimStore } from "./record";
import { claimsOn } from "./store";

/** Claims that end with the process: for tests. A gate warns of it in production. */
export function memoryClaims({ warn = true }: { readonly warn?: boolean } = {}): ClaimStore {
  if (warn) process.emitWarning("Turnpike keeps claims in memory: used payments work again after a restart.");
  // In memory nothing lasts, so nothing is pinned.
  const { pinned: _, ...claims } = claimsOn(memoryCells());
  return claims;
}
