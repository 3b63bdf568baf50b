/** What a payer signed, and whether its own key did. Asks nothing of the chain. */
import { type Hex, permit2TypedData, transferTypedData, typedDataDigest } from "turnpike/protocol";
import { signerOf } from "../chain/signer-of";
import type { FacilitatorConfig } from "../config";
import type { TokenConfig } from "../config/chain";
import { type Authorization, type Permit2Payment, permit2AuthorizationOf, type Transfer } from "./transfer";

export interface SignedPayment {
  readonly token: TokenConfig;
  readonly authorization: Authorization;
  readonly transfer: Transfer;
  readonly signature: Hex;
}

export function digestOf({ chainId }: FacilitatorConfig, signed: SignedPayment): Hex {
  const { address: token, name, version } = signed.token;
  const over = permit2PaymentOf(signed);
  if (over) return typedDataDigest(permit2TypedData(chainId, permit2AuthorizationOf(over)));
  return typedDataDigest(transferTypedData({ chainId, token, name, version }, signed.authorization));
}

export function permit2PaymentOf(signed: SignedPayment): Permit2Payment | undefined {
  const { token, authorization, signature, transfer } = signed;
  return transfer.method === "eip3009" ? undefined : { token: token.address, authorization, signature, transfer };
}

export function isSignedByKey(config: FacilitatorConfig, signed: SignedPayment): boolean {
  return signerOf(digestOf(config, signed), signed.signature) === signed.authorization.from;
}
