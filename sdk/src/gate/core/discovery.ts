/** What catalogues are told of a route. */
import { ConfigError } from "../../protocol";
import { parseStrictJson } from "../../protocol/strict-json";

/** How to call a resource, for catalogues that list it. Shown to everybody. */
export interface Discovery {
  /** e.g. { symbol: "ABC" }; of GET, HEAD and DELETE */
  readonly queryParams?: Readonly<Record<string, unknown>>;
  /** an example of the body; of the other methods */
  readonly body?: Readonly<Record<string, unknown>>;
  /** default "json" */
  readonly bodyType?: "json" | "form-data" | "text";
  /** an example of what comes back */
  readonly output?: { readonly type?: string; readonly example?: unknown };
}

/** Clients echo it in their payload, whose nesting is limited. */
const MAX_DISCOVERY_DEPTH = 4;

/** @throws ConfigError for what clients could not echo: their payments would be refused */
export function checkDiscovery(discovery: Discovery | undefined): Discovery | undefined {
  if (discovery !== undefined && !canEcho(discovery)) {
    throw new ConfigError(
      `discovery is no JSON that clients could echo: use at most ${MAX_DISCOVERY_DEPTH} levels, and no NUL or name such as __proto__`,
    );
  }
  return discovery;
}

function canEcho(discovery: Discovery): boolean {
  try {
    return parseStrictJson(JSON.stringify(discovery), MAX_DISCOVERY_DEPTH) !== undefined;
  } catch {
    // A bigint, or an object within itself.
    return false;
  }
}
