/**
 * Creates signed payments in bulk before the clock starts, as the bodies that agents post. Test keys, worthless
 * elsewhere.
 */
import {
  type Address,
  addressOfKey,
  type Hex,
  issueMemo,
  keccakText,
  paymentNonce,
  randomBytes,
  randomRef,
  toHex,
  transferTypedData,
  typedDataDigest,
} from "turnpike/protocol";
import { Secret } from "../../facilitator/src/config/setting";
import { digestSigner } from "../../facilitator/src/relayer/signer";

export type Endpoint = "/authorize" | "/settle";

export interface PayloadTerms {
  readonly endpoint: Endpoint;
  readonly chainId: number;
  readonly network: string;
  readonly token: Address;
  readonly tokenName: string;
  readonly tokenVersion: string;
  readonly payTo: Address;
  readonly amount: bigint;
  readonly payers: number;
  /** unix seconds */
  readonly validBefore: number;
}

const RESOURCE = "https://api.example/v1/quotes/latest?symbol=ABC&currency=USD";
const MEMO_KEY = { id: "k1", secret: new Uint8Array(32).fill(7) };

const payerKey = (index: number): Hex => keccakText(`turnpike bench payer ${index}`);
export const payerAddress = (index: number): Address => addressOfKey(payerKey(index));

/** Creates bodies for one endpoint; payers take turns, and no nonce is used twice. */
export function makePayloads(terms: PayloadTerms, count: number): string[] {
  const payers = Array.from({ length: terms.payers }, (_, index) => ({
    sign: digestSigner(new Secret(payerKey(index))).signDigest,
    address: payerAddress(index),
  }));
  return Array.from({ length: count }, (_, index) => {
    const payer = payers[index % payers.length];
    if (!payer) throw new TypeError("there are no payers");
    const ref = randomRef();
    const nonce = terms.endpoint === "/authorize" ? paymentNonce(ref, RESOURCE) : toHex(randomBytes(32));
    const authorization = {
      from: payer.address,
      to: terms.payTo,
      value: terms.amount,
      validAfter: 0n,
      validBefore: BigInt(terms.validBefore),
      nonce,
    };
    const { chainId, token, tokenName: name, tokenVersion: version } = terms;
    const digest = typedDataDigest(transferTypedData({ chainId, token, name, version }, authorization));
    const signed = {
      authorization: {
        ...authorization,
        value: terms.amount.toString(),
        validAfter: "0",
        validBefore: String(terms.validBefore),
      },
      signature: payer.sign(digest),
    };
    return JSON.stringify(
      terms.endpoint === "/authorize" ? nativeBody(terms, signed, ref) : standardBody(terms, signed),
    );
  });
}

interface Signed {
  readonly authorization: object;
  readonly signature: string;
}

function nativeBody(terms: PayloadTerms, signed: Signed, ref: string): object {
  const { network, token, amount, payTo } = terms;
  const quoted = { method: "GET", resource: RESOURCE, amount, token, payTo, network };
  const memo = issueMemo(MEMO_KEY, quoted, ref, terms.validBefore + 1);
  return { signedPayment: { scheme: "exact", network, token, ...signed, memo, resource: RESOURCE } };
}

function standardBody(terms: PayloadTerms, signed: Signed): object {
  const { network, token, amount, payTo } = terms;
  return {
    x402Version: 1,
    paymentPayload: { x402Version: 1, scheme: "exact", network, payload: signed },
    paymentRequirements: {
      scheme: "exact",
      network,
      maxAmountRequired: amount.toString(),
      resource: RESOURCE,
      description: "",
      mimeType: "application/json",
      payTo,
      maxTimeoutSeconds: 60,
      asset: token,
      extra: { name: terms.tokenName, version: terms.tokenVersion },
    },
  };
}
