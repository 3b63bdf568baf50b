/** Decides which prices over Permit2 can be offered, by what their Facilitators support. */
import { ConfigError, isTurnpikeError, Unavailable } from "../../protocol";
import type { GateContext } from "./context";
import type { Permit2Terms } from "./offers";
import type { Price } from "./pricing";

/** How long quotes wait for a Facilitator that has not answered yet, since it was asked. */
const WAIT_MS = 1_000;

/** Returns what an entry says of Permit2; "unsupported" while its Facilitator is not known to settle it. */
export function permit2TermsOf({ scheme, context }: Price): Permit2Terms | "unsupported" {
  const { exactOverPermit2, uptoSigner: facilitatorAddress, sponsorsGas = false } = context.support.known() ?? {};
  if (scheme === "upto")
    return facilitatorAddress ? { transfer: "upto", facilitatorAddress, sponsorsGas } : "unsupported";
  return exactOverPermit2 ? { transfer: "permit2", sponsorsGas } : "unsupported";
}

/** Asks the Facilitators that have not answered yet. @returns why prices over Permit2 may be missing */
export async function supportOutage(contexts: readonly GateContext[]): Promise<Unavailable | undefined> {
  const unknown = contexts.filter(({ support }) => support.known() === undefined);
  await Promise.all(unknown.map(({ support }) => support.readWithin(WAIT_MS)));
  if (contexts.length === 0) return undefined;
  return new Unavailable("The Facilitator states no support of payments over Permit2 now; nothing was charged.", {
    retryAfterSec: 2,
  });
}

/**
 * Checks at start-up that a price over Permit2 can be sold. An outage of the Facilitator does not stop the provider.
 * @throws ConfigError
 */
export async function requireSupport(price: Price): Promise<void> {
  const { context, scheme } = price;
  try {
    await context.support.read();
  } catch (error) {
    if (isTurnpikeError(error) && error.code === "Unavailable") return;
    throw error;
  }
  if (permit2TermsOf(price) !== "unsupported") return;
  const { facilitator } = context.settings;
  const what =
    scheme === "upto"
      ? 'payments of type "upto" (its setting UPTO_SIGNER)'
      : "payments over Permit2 (its setting PERMIT2)";
  throw new ConfigError(`The Facilitator at ${facilitator?.url} does not settle ${what}: use one that does`);
}
