/** MPP, the HTTP authentication scheme "Payment": sells single requests for EIP-3009 tokens beside x402. */
import { caip2Of, HEADER, memberOf } from "../../../protocol";
import { CHARGE_INTENT, CHARGE_METHOD } from "../../../protocol/payment-auth";
import { type Dialect, entryNamed, type PaymentCredential } from "../../core/dialect";
import { invalid } from "../../core/payment-case";
import { errorFor, mayPayAgain, problemMembers, receiptOf } from "./answers";
import { type CredentialHeader, challengesFor, isCharged } from "./challenge";
import { bearsCredential, chargeOf, checkCredential, type Presented, readCredential } from "./credential";

/** @param header in which clients send their credential */
export function mpp(header: CredentialHeader): Dialect {
  const dialect: Dialect = {
    read(request) {
      const presented = readCredential(request, header);
      return presented && credentialOf(presented, header, dialect);
    },
    quote(asked) {
      const challenges = mayPayAgain(asked.refusal) ? challengesFor(asked, header) : "";
      const headers: Record<string, string> = challenges === "" ? {} : { [HEADER.authenticate]: challenges };
      return headers;
    },
    problem({ request, refusal }) {
      const isSpoken = request.header("accept-payment") !== undefined || bearsCredential(request, header);
      return isSpoken ? problemMembers(refusal) : undefined;
    },
    report(at, payment) {
      const challenge = memberOf(readCredential(at.request, header)?.payload, "challenge");
      return receiptOf(at, payment, String(memberOf(challenge, "id")));
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
    check: (at) => checkCredential(presented, { at, header, dialect }),
  };
}
