/** How the agent authorizes a transfer: what it reads before, and what signs. */
import type { Address, Hex, TurnpikeError } from "../../../protocol";
import type { TransferMethod } from "../../../protocol/transfer-methods";
import type { AgentContext } from "../../core/context";
import type { PaymentEntry } from "../../ledger/ledger-store";
import type { PaymentOption } from "../quote";

/** Signs what was reserved. @returns what the entry keeps of it */
export type SignTransfer = (
  reserved: PaymentEntry,
  nonce: Hex,
) => Promise<Pick<PaymentEntry, "header" | "signedPayment">>;

export interface AgentMethod extends TransferMethod {
  /**
   * Reads what a signature takes.
   * @throws InsufficientApproval, PolicyRefused or Unavailable; nothing was signed
   */
  prepare(context: AgentContext, option: PaymentOption, payer: Address): Promise<SignTransfer>;
  /** Absent where the token asks for no approval. */
  readonly approval?: Approval;
}

export interface Approval {
  /** Returns whether it is there or can come with the payment; true where no RPC shows otherwise. */
  isThere(context: AgentContext, option: PaymentOption, payer: Address): Promise<boolean>;
  /** Names the queue in which the payment waits where it brings an approval; undefined where it needs none. */
  queueOf(context: AgentContext, option: PaymentOption): Promise<string | undefined>;
  /** Creates the error for a payment that cannot move for want of it. */
  lacking(facts: ApprovalFacts): TurnpikeError;
}

export interface ApprovalFacts {
  readonly payer: Address;
  readonly token: Address;
  readonly amount: bigint;
  /** undefined when it is not known */
  readonly approval: bigint | undefined;
  readonly why: string;
  readonly paymentId?: Hex;
}
