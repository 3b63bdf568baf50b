/**
 * Steps of a payment between which the process may die. Each is reported right after it completes. A test kills the
 * process at every step and checks that the next process recovers.
 */
export const STEPS = [
  /** the request is read; nothing is stored */
  "received",
  /** the payment is bound and queued */
  "bound",
  /** the payment is in a transaction that waits for its nonce */
  "composed",
  /** nonce and signature exist, in a database transaction that is not committed yet */
  "signed",
  /** the bytes are stored; nothing is sent */
  "stored",
  /** the bytes are sent; the answer is unread */
  "broadcast",
  /** the receipt is recorded */
  "mined",
  /** its block is applied: the payment is settled */
  "applied",
  /** the proof is signed and not sent yet */
  "proven",
] as const;

export type Step = (typeof STEPS)[number];

export type Failpoint = (step: Step) => void;
