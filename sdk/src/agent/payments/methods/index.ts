/** The ways in which the agent authorizes transfers, and which one a payment moves by. */
import type { PaymentMethod } from "../../../protocol";
import { type TransferMethodName, transferMethodOf } from "../../../protocol/transfer-methods";
import { movementOf, type PaymentEntry } from "../../ledger/ledger-store";
import { eip3009 } from "./eip3009";
import type { AgentMethod } from "./method";
import { permit2 } from "./permit2";

export type { SignTransfer } from "./method";

const METHODS: Readonly<Record<TransferMethodName, AgentMethod>> = { eip3009, permit2 };

export const methodOf = ({ method }: { readonly method: PaymentMethod }): AgentMethod =>
  METHODS[transferMethodOf(method).name];

export const methodOfEntry = (entry: PaymentEntry): AgentMethod => methodOf(movementOf(entry));
