// TypeScript, strict: what a user writes has the types it should have, and mistakes are errors.
import { buildPaymentRequired, createAgent as fromRoot, paymentGate } from "turnpike";
import {
  type Agent,
  type AgentEvent,
  type Audit,
  createAgent,
  type PaymentReceipt,
  type PriceOption,
  type Subscription,
  verifyAudit,
  walletFromKey,
} from "turnpike/agent";
import { fileLedger, fileReceipts, writeAudit } from "turnpike/agent/file-ledger";
import { type Turnpike, Turnpike__factory, type TurnpikeLens } from "turnpike/chain";
import { createFacilitatorClient } from "turnpike/facilitator";
import { createProvider, type Payment } from "turnpike/gate";
import { type Hex, type PaymentProof, TurnpikeError } from "turnpike/protocol";
import { createTestProvider, manualClock } from "turnpike/testing";

export const agent: Agent = createAgent({
  wallet: walletFromKey("0x11"),
  policy: { perPayment: 1_000_000n, perDay: "2000000", tokens: [] },
  facilitators: ["https://facilitator.example"],
  ledger: fileLedger("./agent.jsonl"),
  receipts: fileReceipts("./receipts"),
  onEvent: (event: AgentEvent) => {
    if (event.type === "payment.settled") console.log(event.paymentId satisfies Hex, event.amount + 1n);
    // @ts-expect-error this event bears no payment
    if (event.type === "approval.raised") console.log(event.paymentId);
  },
});
export const same: typeof createAgent = fromRoot;

export async function use(): Promise<bigint> {
  const response = await agent.pay("https://api.example/data", { idempotencyKey: "one", maxAmount: 5n });
  const receipt: PaymentReceipt | undefined = response.receipt;
  const subscription: Subscription = await agent.subscribe({ planId: "0x12", maxOverage: 1_000_000 });
  const { options } = await agent.quote("https://api.example/data");
  const free = options.map((option: PriceOption) => (option.kind === "metered" ? option.planId : option.amount));
  // @ts-expect-error amounts are bigint, never number
  const wrong: number | undefined = receipt?.amount;
  void [free, wrong];
  return subscription.remaining + (receipt?.amount ?? 0n);
}

export async function bill(): Promise<readonly bigint[]> {
  const audit: Audit = await agent.audit({ fromBlock: 1 });
  await writeAudit("bill.json", audit);
  const { differences } = await verifyAudit(audit.text, { rpc: "https://rpc.example" });
  void (differences satisfies readonly string[]);
  const found = audit.subscriptions.flatMap(({ findings }) => findings);
  return found.flatMap((finding) => (finding.kind === "excess" ? [finding.amount] : []));
}

export const gate = paymentGate({ pricing: [{ type: "one-time", amount: 500_000n }] });
// @ts-expect-error there is no such kind of pricing
export const none = () => paymentGate({ pricing: [{ type: "lifetime", amount: 1n }] });
export const kindOf = (payment: Payment): "one-time" | "subscription" | "free" => payment.kind;
export const provider = () => createProvider({ network: "base-mainnet", payTo: "0x00" });
export const body = () => buildPaymentRequired({ plan: "0x12" }).accepts;
export const client = createFacilitatorClient({ url: "https://facilitator.example" });
export const payerOf = (proof: PaymentProof): string => proof.payer;
export const codeOf = (error: unknown) => (error instanceof TurnpikeError ? error.code : undefined);
export const testing = () => [createTestProvider({ clock: manualClock(1) }), TurnpikeError] as const;

/** A gate of one's own: whether a subscription is served, and a debit by an operator's key. */
export async function debitOnce(turnpike: Turnpike, lens: TurnpikeLens, idHash: Hex): Promise<string | undefined> {
  const { debits, remaining } = await lens.getAllowance(idHash);
  const left: bigint = remaining;
  if ((await turnpike.statusOf(idHash)) !== 1n || left === 0n) return undefined;
  // @ts-expect-error a debit has an index
  await turnpike.debit(idHash, left);
  return (await turnpike.debit(idHash, left, debits)).hash;
}
export const turnpike = (address: string): Turnpike => Turnpike__factory.connect(address);
