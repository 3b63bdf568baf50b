/** Transfers that the token itself checks, by EIP-3009. */
import { findSettlement } from "../../chain/settlement";
import { payloadV2Schema } from "../../facilitator/x402";
import { type Hex, paymentIdOf, type TransferAuthorization, transferTypedData, typedDataDigest } from "../../protocol";
import { TRANSFER_METHODS } from "../../protocol/transfer-methods";
import { type Method, parsed, type SignedTransfer, type SigningDomain, schemeAsked } from "./method";

/** Returns what was signed, of a payload of either version. */
export function signedByToken(
  { authorization, signature }: { readonly authorization: TransferAuthorization; readonly signature: Hex },
  { chainId, token: { address: token, name, version } }: SigningDomain,
): SignedTransfer {
  const { from: payer, nonce } = authorization;
  return {
    authorization,
    signature,
    paymentId: paymentIdOf({ chainId, token, payer, nonce }),
    digest: typedDataDigest(transferTypedData({ chainId, token, name, version }, authorization)),
  };
}

export const eip3009: Method = {
  ...TRANSFER_METHODS.eip3009,
  isOfVersion1: true,
  bound: () => undefined,
  read(source) {
    if (schemeAsked(source) === "upto") return "transfer_method";
    const { accepted, resource, payload } = parsed(payloadV2Schema, source);
    if (!this.isNamedIn(accepted.extra)) return "transfer_method";
    const { to: payTo, value: max } = payload.authorization;
    const signed = (domain: SigningDomain): SignedTransfer => signedByToken(payload, domain);
    return { scheme: "exact", accepted, resource, payTo, max, signed };
  },
  findSettlement,
};
