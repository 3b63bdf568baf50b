/** Decides which prices can be offered, by what their Facilitators state that they settle. */
import { ConfigError, isTurnpikeError, Unavailable } from "../../protocol";
import type { OfferedTerms } from "../methods";
import type { GateContext } from "./context";
import type { FacilitatorSupport } from "./facilitator-support";
import type { Price } from "./pricing";

/** How long quotes wait for a Facilitator that has not answered yet, since it was asked. */
const WAIT_MS = 1_000;

/** Returns whether a price can be quoted only as its Facilitator states that it settles it. */
export const needsSupport = ({ method }: Price): boolean => method.termsIn !== undefined;

/** Returns what an entry names of its Facilitator; "unsupported" while that is not known to settle it. */
export function offeredTermsOf({ scheme, method, context }: Price): OfferedTerms | "unsupported" {
  if (!method.termsIn) return NOTHING_NAMED;
  return method.termsIn(context.support.known(), scheme) ?? "unsupported";
}

const NOTHING_NAMED: OfferedTerms = { sponsorsGas: false };

/** Asks the Facilitators that have not answered yet. @returns why prices that need their support may be missing */
export async function supportOutage(contexts: readonly GateContext[]): Promise<Unavailable | undefined> {
  const unknown = contexts.filter(({ support }) => support.known() === undefined);
  await Promise.all(unknown.map(({ support }) => support.readWithin(WAIT_MS)));
  if (contexts.length === 0) return undefined;
  return new Unavailable("The Facilitator does not state now that it settles such payments; nothing was charged.", {
    retryAfterSec: 2,
  });
}

/**
 * Checks at start-up that a price can be paid: that its Facilitator settles the token, as it is signed for. An outage of
 * the Facilitator does not stop the provider.
 * @throws ConfigError
 */
export async function requireSupport(price: Price): Promise<void> {
  const { context, scheme, method } = price;
  const { facilitator, token } = context.settings;
  if (!facilitator) return;
  let support: FacilitatorSupport;
  try {
    support = await context.support.read();
  } catch (error) {
    if (isTurnpikeError(error) && error.code === "Unavailable") return;
    throw error;
  }
  const at = `The Facilitator at ${facilitator.url}`;
  if (support.token === "unlisted") {
    throw new ConfigError(
      `${at} does not settle the token ${token?.address}: add it to the Facilitator's setting TOKENS, or sell in a token that GET /supported lists`,
    );
  }
  if (price.kind === "fixed") requireEnough(price.amount, support, { at, token: token?.address });
  if (!needsSupport(price)) return requireSameDomain(context, support, at);
  if (offeredTermsOf(price) !== "unsupported") return;
  throw new ConfigError(`${at} does not settle ${method.needs?.(scheme)}: use one that does`);
}

/** @throws ConfigError for less than the Facilitator settles */
function requireEnough(
  amount: bigint,
  { minAmount }: FacilitatorSupport,
  { at, token }: { readonly at: string; readonly token: string | undefined },
): void {
  if (minAmount === undefined || amount >= BigInt(minAmount)) return;
  throw new ConfigError(
    `a price of ${amount} base units can never be paid: ${at.replace(/^The/, "the")} settles ${minAmount} of ${token} at least. Raise the price, or sell small amounts by a plan with an allowance`,
  );
}

/** @throws ConfigError where payers would sign for another domain than the Facilitator judges by */
function requireSameDomain({ settings, terms }: GateContext, { token: listed }: FacilitatorSupport, at: string): void {
  const quoted = settings.token && terms.token(settings.token.address);
  if (!quoted || !listed || listed === "unlisted") return;
  if (quoted.name === listed.name && quoted.version === listed.version) return;
  throw new ConfigError(
    `${at} settles ${quoted.address} under the name "${listed.name}" and the version "${listed.version}", and this gate quotes "${quoted.name}" and "${quoted.version}": correct token.name and token.version here, or TOKENS there, whichever is not the token's own`,
  );
}
