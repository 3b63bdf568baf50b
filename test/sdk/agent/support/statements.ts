/** What a provider signs in the extension offer-receipt. */
import {
  type OfferPayload,
  offerTypedData,
  type ReceiptPayload,
  receiptTypedData,
  signDigest,
  typedDataDigest,
} from "turnpike/protocol";
import { testKey } from "./world";

/** @param role whose key signs */
export const signedOffer = (payload: OfferPayload, role = "provider") => ({
  format: "eip712",
  acceptIndex: 0,
  payload,
  signature: signDigest(typedDataDigest(offerTypedData(payload)), testKey(role)),
});

/** @param role whose key signs */
export const signedReceipt = (payload: ReceiptPayload, role = "provider") => ({
  format: "eip712",
  payload,
  signature: signDigest(typedDataDigest(receiptTypedData(payload)), testKey(role)),
});
