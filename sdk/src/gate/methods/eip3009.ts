/** Transfers that the token itself checks, by EIP-3009. */
import { tokenInterface } from "../../chain/abi";
import { findSettlement } from "../../chain/settlement";
import { payloadV2Schema } from "../../facilitator/payments";
import {
  type Hex,
  isEip3009,
  paymentIdOf,
  type TransferAuthorization,
  transferTypedData,
  typedDataDigest,
} from "../../protocol";
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
  isOfVersion1: true,
  extra: {},
  bound: () => undefined,
  read(source) {
    if (schemeAsked(source) === "upto") return "transfer_method";
    const { accepted, resource, payload } = parsed(payloadV2Schema, source);
    if (!isEip3009(accepted.extra)) return "transfer_method";
    const { to: payTo, value: max } = payload.authorization;
    const signed = (domain: SigningDomain): SignedTransfer => signedByToken(payload, domain);
    return { scheme: "exact", accepted, resource, payTo, max, signed };
  },
  async isUsed(rpc, { token, payer, nonce }) {
    const data = tokenInterface.encodeFunctionData("authorizationState", [payer, nonce]);
    return BigInt(await rpc.send<string>("eth_call", [{ to: token, data }, "latest"])) !== 0n;
  },
  findSettlement,
};
