/**
 * Signs a provider's offers and receipts (the extension `offer-receipt` of x402 version 2) as EIP-712 messages. A
 * signature that cannot be made is left out: the 402 and the paid answer leave without it.
 */
import {
  type Address,
  addressOfKey,
  type Clock,
  ConfigError,
  caip2Of,
  configuredAddress,
  type Hex,
  isPrivateKey,
  type OfferPayload,
  offerTypedData,
  type ReceiptPayload,
  receiptTypedData,
  type SignedOffer,
  type SignedReceipt,
  signatureWithV,
  signDigest,
  type TypedData,
  typedDataDigest,
  Unavailable,
} from "../../protocol";
import { BoundedMap } from "../../protocol/bounded-map";
import { atMost } from "../../protocol/exchange";
import { recoverSigner } from "../methods/method";
import { type Offer, schemeOf } from "./offers";
import type { OfferReceiptOptions, OfferReceiptSigner } from "./options";
import type { OneTimePayment } from "./payment";

/** Signs for one provider. */
export interface OfferReceiptIssuer {
  /** Signs entries for a resource, in their order. Returns none where one cannot be signed. */
  offers(resource: string, sold: readonly Offer[]): Promise<readonly SignedOffer[]>;
  /** Signs that a payment has bought an answer. @returns undefined where it cannot be signed */
  receipt(resource: string, payment: OneTimePayment, chainId: number): Promise<SignedReceipt | undefined>;
}

/** How long a request waits for a signature. */
const SIGN_WAIT_MS = 2_000;

/** A signature that takes longer never comes, and is asked for again. */
const GIVE_UP_MS = 30_000;

function throwLate(): never {
  throw new Unavailable("The signer did not answer.", { reason: "timeout" });
}

/** A signed offer is sent again for this long, so that a 402 stays cheap. */
const REUSE_SEC = 60;

const MAX_OFFERS = 1_000;

type OfferTerms = Omit<OfferPayload, "validUntil">;

interface IssuerFacts {
  /** seconds for which an offer holds */
  readonly lifeSec: number;
  /** of the statements: their readers know no chain's time */
  readonly clock: Clock;
}

/** @throws ConfigError for a key or signer that cannot sign */
export function createOfferReceiptIssuer(
  options: OfferReceiptOptions,
  { lifeSec, clock }: IssuerFacts,
): OfferReceiptIssuer {
  const { transaction: namesTransaction = true } = options;
  const sign = signatureOf(signerOf(options));
  const signed = new BoundedMap<string, { readonly atSec: number; readonly offer: SignedOffer }>(MAX_OFFERS);
  const signing = new Map<string, Promise<SignedOffer>>();
  const reuseSec = Math.min(REUSE_SEC, lifeSec / 2);
  let isLate = false;

  /** @returns undefined while the signer is late with another offer: it is asked one thing at a time then */
  function renew(key: string, terms: OfferTerms): Promise<SignedOffer> | undefined {
    const known = signing.get(key);
    if (known || (isLate && signing.size > 0)) return known;
    const atSec = clock.nowSec();
    const payload = { ...terms, validUntil: atSec + lifeSec };
    const made = atMost(GIVE_UP_MS, sign(offerTypedData(payload)), throwLate)
      .then((signature) => {
        isLate = false;
        const offer = { format: "eip712" as const, payload, signature };
        signed.set(key, { atSec, offer });
        return offer;
      })
      .finally(() => signing.delete(key));
    signing.set(key, made);
    return made;
  }

  function onLate(): void {
    isLate = true;
  }

  /** Returns what was signed before while that holds, and renews it behind the request. */
  function offer(terms: OfferTerms): SignedOffer | Promise<SignedOffer> | undefined {
    const key = JSON.stringify(terms);
    const nowSec = clock.nowSec();
    const known = signed.get(key);
    if (!known || nowSec < known.atSec || nowSec >= known.atSec + lifeSec) return renew(key, terms);
    if (nowSec >= known.atSec + reuseSec) {
      const renewed = renew(key, terms);
      if (renewed) void orWarn("offers", renewed, onLate);
    }
    return known.offer;
  }

  return {
    async offers(resource, sold) {
      const made = sold.map((sale) =>
        offer({
          version: 1,
          resourceUrl: resource,
          scheme: schemeOf(sale),
          network: caip2Of(sale.context.settings.network.chainId),
          asset: sale.token.address,
          payTo: sale.payTo,
          amount: sale.amount.toString(),
        }),
      );
      const waiting = made.filter((each) => each instanceof Promise);
      const isReady = made.every((each) => each !== undefined);
      // What is awaited in vain is reported, also where this request does not wait.
      const all = waiting.length > 0 ? orWarn("offers", Promise.all(waiting), onLate) : undefined;
      if (!isReady || (all && (isLate || (await all) === undefined))) return [];
      return Promise.all(made as SignedOffer[]);
    },
    async receipt(resource, { payer, transaction }, chainId) {
      const payload: ReceiptPayload = {
        version: 1,
        network: caip2Of(chainId),
        resourceUrl: resource,
        payer,
        issuedAt: clock.nowSec(),
        transaction: namesTransaction ? (transaction ?? "") : "",
      };
      const signature = await orWarn("receipt", sign(receiptTypedData(payload)));
      return signature && { format: "eip712", payload, signature };
    },
  };
}

function signerOf({ key, signer }: OfferReceiptOptions): OfferReceiptSigner {
  if (key !== undefined && signer !== undefined) {
    throw new ConfigError("offerReceipt has a key and a signer: name one of them");
  }
  if (signer !== undefined) {
    if (typeof signer.signTypedData !== "function") {
      throw new ConfigError("offerReceipt.signer has no signTypedData(): use an object such as viem's accounts");
    }
    const field = "offerReceipt.signer.address";
    return {
      address: configuredAddress(signer.address, field, `${field} is no address`),
      signTypedData: (data) => signer.signTypedData(data),
    };
  }
  if (!isPrivateKey(key)) {
    throw new ConfigError(
      "offerReceipt.key (TURNPIKE_OFFER_RECEIPT_KEY) is no private key: 0x and 64 hex digits, not all zeros",
    );
  }
  return { address: addressOfKey(key), signTypedData: async (data) => signDigest(typedDataDigest(data), key) };
}

/** @returns a signing function that checks each signature, since a reader could not use a wrong one */
function signatureOf({ address, signTypedData }: OfferReceiptSigner): (data: TypedData) => Promise<Hex> {
  return async (data) => {
    const signature = signatureWithV((await signTypedData(data)) as Hex);
    if (recoverSigner(typedDataDigest(data), signature) === (address as Address)) return signature;
    throw new TypeError(`offerReceipt.signer returned a signature that is not by ${address}`);
  };
}

/** Waits a bounded time; the fault is logged without the message of a signer, which may quote what it was given. */
async function orWarn<T>(
  what: "offers" | "receipt",
  work: Promise<T>,
  onLate: () => void = () => undefined,
): Promise<T | undefined> {
  const failed = (why: string) => {
    process.emitWarning(`offerReceipt: the ${what} could not be signed (${why}); the answer leaves without.`);
    return undefined;
  };
  const settled = work.catch((cause: unknown) => failed(cause instanceof Error ? cause.name : "not an error"));
  return atMost(SIGN_WAIT_MS, settled, () => {
    onLate();
    return failed(`no signature in ${SIGN_WAIT_MS} ms`);
  });
}
