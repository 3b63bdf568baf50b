/** Reads a request's credentials, in every dialect. Refuses ambiguous ones; judges none. */
import { HEADER } from "../../protocol";
import { ambiguous, type Dialect, type PaymentCredential, singleHeader } from "../core/dialect";
import type { GateRequest } from "../core/request";

export interface Credentials {
  readonly subscription: string | undefined;
  /** an answer to a `sign-in-with-x` challenge */
  readonly signIn?: string | undefined;
  readonly payment: PaymentCredential | undefined;
}

const SUBSCRIPTION = HEADER.subscription.toLowerCase();

const SIGN_IN = HEADER.signIn.toLowerCase();

const NONE: Credentials = { subscription: undefined, payment: undefined };

/** @throws AmbiguousCredentials (400) for a repeated, joined or oversized header, or two payments at once */
export function readCredentials(request: GateRequest, dialects: readonly Dialect[]): Credentials {
  const subscription = singleHeader(request, SUBSCRIPTION);
  const payment = paymentIn(request, dialects);
  const signIn = singleHeader(request, SIGN_IN);
  if (subscription === undefined && payment === undefined && signIn === undefined) return NONE;
  return { subscription, signIn, payment };
}

function paymentIn(request: GateRequest, dialects: readonly Dialect[]): PaymentCredential | undefined {
  let found: PaymentCredential | undefined;
  for (const dialect of dialects) {
    const read = dialect.read(request);
    if (!read || (read.isNothing && found)) continue;
    if (found && !found.isNothing) throw ambiguous(`${found.header} and ${read.header} hold two payments: send one`);
    found = read;
  }
  return found;
}
