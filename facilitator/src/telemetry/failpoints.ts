/**
 * The steps of a payment between which this process may die. Each is told right after it is done; a test kills the
 * process at every one of them and looks at what the next process makes of it.
 */
export const STEPS = [
  /** a request is read; nothing is stored */
  "received",
  /** its payment is bound and queued */
  "bound",
  /** it is in a transaction that waits for its nonce */
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
  /** the proof is signed and not yet answered */
  "proven",
] as const;

export type Step = (typeof STEPS)[number];

export type Failpoint = (step: Step) => void;
