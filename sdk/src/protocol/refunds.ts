/**
 * Names what is refunded, and derives the nonce of the EIP-3009 transfer that is the refund: the token accepts
 * each nonce of an account once.
 */
import { aNumber, aText, fieldsOf } from "./arguments";
import { concatBytes, type Hex, hexToBytes, keccak256, textToBytes, WORD, wordOfAddress, wordOfUint } from "./hex";
import type { TurnpikeDeployment } from "./typed-data";

/** A one-time payment, one debit of an allowance, or one charge of a subscription's period. */
export type RefundTarget =
  | { readonly type: "payment"; readonly paymentId: Hex }
  | { readonly type: "debit"; readonly idHash: Hex; readonly index: number }
  | {
      readonly type: "charge";
      readonly idHash: Hex;
      /** of the subscription right after the charge */
      readonly version: number;
      /** of the subscription right after the charge, unix seconds */
      readonly paidThrough: number;
    };

/** The id that a target's refunds are counted under: the paymentId, {@link debitIdOf} or {@link chargeIdOf}. */
export function refundedIdOf(deployment: TurnpikeDeployment, target: RefundTarget): Hex {
  fieldsOf(deployment, "deployment");
  fieldsOf(target, "target");
  if (target.type === "payment") return target.paymentId.toLowerCase() as Hex;
  return target.type === "debit" ? debitIdOf(deployment, target) : chargeIdOf(deployment, target);
}

/** keccak256(abi.encode(chainId, turnpike, idHash, "debit", index)). */
export function debitIdOf(
  deployment: TurnpikeDeployment,
  target: { readonly idHash: Hex; readonly index: number },
): Hex {
  fieldsOf(deployment, "deployment");
  const { idHash, index } = fieldsOf(target, "target");
  return collectionId(deployment, idHash, "debit", [index]);
}

/**
 * keccak256(abi.encode(chainId, turnpike, idHash, "charge", version, paidThrough)), both as they are right after the
 * charge: paidThrough alone can repeat after a pause.
 */
export function chargeIdOf(
  deployment: TurnpikeDeployment,
  target: { readonly idHash: Hex; readonly version: number; readonly paidThrough: number },
): Hex {
  fieldsOf(deployment, "deployment");
  const { idHash, version, paidThrough } = fieldsOf(target, "target");
  return collectionId(deployment, idHash, "charge", [version, paidThrough]);
}

/** keccak256(abi.encode("turnpike.refund", id, index)): the nonce of refund `index` of what `id` names. */
export function refundNonce(id: Hex, index: number): Hex {
  aText(id, "id");
  aNumber(index, "index");
  return keccak256(
    concatBytes(wordOfUint(3 * WORD), hexToBytes(id), wordOfUint(index), ...encodedText("turnpike.refund")),
  );
}

/** The text is the one dynamic value of the tuple: its tail follows all heads. */
function collectionId(
  { chainId, turnpike }: TurnpikeDeployment,
  idHash: Hex,
  kind: string,
  numbers: readonly number[],
): Hex {
  return keccak256(
    concatBytes(
      wordOfUint(chainId),
      wordOfAddress(turnpike),
      hexToBytes(idHash),
      wordOfUint((4 + numbers.length) * WORD),
      ...numbers.map((number) => wordOfUint(number)),
      ...encodedText(kind),
    ),
  );
}

/** Length and content of a text of at most 32 bytes. */
function encodedText(text: string): Uint8Array[] {
  const content = new Uint8Array(WORD);
  const bytes = textToBytes(text);
  content.set(bytes);
  return [wordOfUint(bytes.length), content];
}
