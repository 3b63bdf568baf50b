/** MPP, the HTTP authentication scheme "Payment": sells single requests for EIP-3009 tokens beside x402. */
import { caip2Of, HEADER } from "../../../protocol";
import { CHARGE_INTENT, CHARGE_METHOD, CREDENTIAL_META } from "../../../protocol/payment-auth";
import { invalid } from "../../core/payment-case";
import type { GateRequest } from "../../core/request";
import { type Dialect, entryNamed, type PaymentCredential } from "../dialect";
import { errorFor, mayPayAgain, problemMembers } from "./answers";
import { type CredentialHeader, challengesFor, isCharged } from "./challenge";
import { bearsCredential, chargeOf, checkCredential, type Presented, readCredential } from "./credential";

/** @param named the header in which clients send their credential over HTTP */
export function mpp(named: CredentialHeader): Dialect {
  const headerOf = ({ resource }: Pick<GateRequest, "resource">): CredentialHeader =>
    resource === undefined ? named : CREDENTIAL_META;
  const dialect: Dialect = {
    read(request) {
      const header = headerOf(request);
      const presented = readCredential(request, header);
      return presented && credentialOf(presented, header, dialect);
    },
    quote(asked) {
      const challenges = mayPayAgain(asked.refusal) ? challengesFor(asked, headerOf(asked.request)) : "";
      const headers: Record<string, string> = challenges === "" ? {} : { [HEADER.authenticate]: challenges };
      return headers;
    },
    problem({ request, refusal }) {
      const isSpoken = request.header("accept-payment") !== undefined || bearsCredential(request, headerOf(request));
      return isSpoken ? problemMembers(refusal) : undefined;
    },
    errorFor,
    charge: (offer) => (isCharged(offer) ? { method: CHARGE_METHOD, intent: CHARGE_INTENT } : undefined),
  };
  return dialect;
}

function credentialOf(presented: Presented, header: CredentialHeader, dialect: Dialect): PaymentCredential {
  if (presented.payload === undefined) {
    const verdict = invalid("malformed", `${header} holds no payment: it is not base64url of one JSON object.`);
    return { dialect, header, isNothing: true, entry: (at) => at, check: () => verdict };
  }
  return {
    dialect,
    header,
    entry(at) {
      const charge = chargeOf(presented);
      if (!charge) return at;
      const { currency: asset, recipient: payTo, methodDetails } = charge;
      return entryNamed({ network: caip2Of(methodDetails.chainId), asset, payTo }, at);
    },
    check: (at) => checkCredential(presented, header, at),
  };
}
