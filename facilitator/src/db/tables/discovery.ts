import type { ColumnType, Generated } from "kysely";
import type { Listing } from "turnpike/facilitator";
import type { Address } from "turnpike/protocol";

/** One price, as a client signs it. */
export interface ListingPrice {
  readonly scheme: string;
  /** base units */
  readonly amount: string;
  readonly asset: Address;
  readonly payTo: Address;
  readonly maxTimeoutSeconds: number;
  readonly extra: Readonly<Record<string, string>>;
}

export interface ListingTerms {
  /** by version of x402 */
  readonly prices: { readonly 1?: readonly ListingPrice[]; readonly 2?: readonly ListingPrice[] };
  readonly description?: string;
  readonly mimeType?: string;
  readonly serviceName?: string;
  readonly tags?: readonly string[];
  /** how to call the resource, as its 402 states it; for the listing's own method */
  readonly bazaar?: Readonly<Record<string, unknown>>;
}

export interface ListingsTable {
  seq: Generated<number>;
  id: string;
  chain_id: number;
  provider: string;
  method: Listing["method"];
  /** origin and path; a segment may be `{name}` */
  url: string;
  host: string;
  sample: ColumnType<Record<string, string>, string, string>;
  /** the address that listed it; null: before it was recorded */
  created_from: string | null;
  state: Listing["state"];
  problem: NonNullable<Listing["problem"]> | null;
  /** what the URL's last 402 offered; null: not listed */
  terms: ColumnType<ListingTerms | null, string | null, string | null>;
  /** lower case */
  search_text: Generated<string>;
  /** checks that failed since the last that did not */
  failures: Generated<number>;
  created_at_ms: number;
  checked_at_ms: number | null;
  /** The last check succeeded then. */
  listed_at_ms: number | null;
  /** The first check since the last successful one failed then. */
  hidden_at_ms: number | null;
  /** The next check is due then; a check in progress moves it, so that its outcome applies to what it read. */
  due_at_ms: number;
}
