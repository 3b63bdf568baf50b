/** How often this agent has paid for a URL, from its ledger. Calls that a subscription served leave no record. */
import type { Book } from "./book";
import { placeOf } from "./request";

export function observedCalls(
  book: Book,
  { url, method, sinceSec }: { readonly url: string; readonly method: string; readonly sinceSec: number },
): bigint {
  const wanted = placeOf(url);
  const paid = book
    .payments()
    .filter((entry) => entry.state !== "released" && entry.state !== "reserved" && entry.atSec > sinceSec)
    .filter((entry) => entry.method === method && placeOf(entry.resource) === wanted);
  return BigInt(paid.length);
}
