/**
 * Finds who pays whom in a request's body without parsing it. Only to share places among them, and to recognise a
 * payment that was seen before: nothing else is decided by it.
 */
import { type Address, type Hex, paymentIdOf } from "turnpike/protocol";
import type { PaymentOutline } from "../payments";

const FROM = /"from"\s*:\s*"(0x[0-9a-fA-F]{40})"/;
const TO = /"to"\s*:\s*"(0x[0-9a-fA-F]{40})"/;
const TOKEN = /"(?:token|asset)"\s*:\s*"(0x[0-9a-fA-F]{40})"/;
const NONCE = /"nonce"\s*:\s*"(0x[0-9a-fA-F]{64})"/;

export function outlineOf(bytes: Buffer, chainId: number): PaymentOutline {
  const text = bytes.toString("latin1");
  const found = (pattern: RegExp): string | undefined => pattern.exec(text)?.[1]?.toLowerCase();
  const payer = found(FROM) ?? "";
  return {
    party: { payer, payee: found(TO) ?? "" },
    get paymentId() {
      const token = found(TOKEN);
      const nonce = found(NONCE);
      if (!payer || !token || !nonce) return undefined;
      return paymentIdOf({ chainId, token: token as Address, payer: payer as Address, nonce: nonce as Hex });
    },
  };
}
