/** The ways of authorizing a transfer that a gate takes, and which one a price or a payload has. */
import type { JsonObject } from "../../protocol";
import type { TransferMethodName } from "../../protocol/transfer-methods";
import { eip3009 } from "./eip3009";
import type { Method, SchemeName } from "./method";
import { GAS_SPONSORING, isOverPermit2, PERMIT2_REFUSALS, permit2 } from "./permit2";

export { eip3009, signedByToken } from "./eip3009";
export * from "./method";

/** Returns the method of a price. @param transferMethod of its token */
export const methodOfPrice = (scheme: SchemeName, transferMethod: TransferMethodName | undefined): Method =>
  scheme === "upto" || transferMethod === "permit2" ? permit2 : eip3009;

/** How tokens are sold that have no authorizations of their own. */
export const WITHOUT_AUTHORIZATIONS = permit2;

/** Goes by what was signed, as the Facilitator does; the option has to name the same method. */
export const methodOfPayload = ({ payload }: JsonObject): Method => (isOverPermit2(payload) ? permit2 : eip3009);

/** Extensions of a 402 that names a method whose Facilitator sponsors a payer's gas. */
export const SPONSORING = GAS_SPONSORING;

/** Messages to payers, by the reason of a Facilitator's refusal. */
export const METHOD_REFUSALS: Readonly<Record<string, string>> = PERMIT2_REFUSALS;
