/**
 * Compares usage receipts with the debits of one subscription, cycle by cycle. Pure: who may sign, and what was debited,
 * are facts of the chain that the caller has read.
 */
import { type Address, type Hex, isOverpriced, type UsageReceipt } from "../../protocol";
import { anObject, wrongKind } from "../../protocol/arguments";

/** A cycle as receipts and the chain name it: the record, its version, and the end of its paid period. */
export interface CycleName {
  readonly idHash: Hex;
  readonly version: number;
  /** unix seconds */
  readonly paidThrough: number;
}

/** One debit as the chain has it; amounts in base units. */
export interface BilledDebit extends CycleName {
  readonly index: number;
  readonly amount: bigint;
  /** paid back since, to the subscriber */
  readonly refunded: bigint;
  readonly transaction: Hex;
}

/** A receipt and who has signed it. */
export interface HeldReceipt {
  readonly receipt: UsageReceipt;
  readonly signature: Hex;
  /** undefined: the signature recovers no account */
  readonly signer: Address | undefined;
}

export interface Bill {
  /** the subscription's record, and those that rekeys moved it to or from, the oldest first */
  readonly idHashes: readonly Hex[];
  readonly debits: readonly BilledDebit[];
  readonly receipts: readonly HeldReceipt[];
  /** Returns whether the receipt names its cycle's plan, which has ever given this account the right to sign receipts. */
  readonly maySign: (receipt: UsageReceipt, signer: Address) => boolean;
}

/** What one cycle was debited, and what receipts say of it; base units. */
export interface AuditedCycle extends CycleName {
  readonly debited: bigint;
  readonly refunded: bigint;
  /** the sum of the cycle by its receipts */
  readonly receipted: bigint;
  /** receipts that count */
  readonly receipts: number;
  /** receipted and not debited by the end of this cycle; a later debit may collect it */
  readonly open: bigint;
}

/** Whose receipts of which cycle: each signer numbers its own. */
export interface ReceiptSeries extends CycleName {
  readonly signer: Address;
}

/** What an audit has found; amounts in base units. */
export type Finding =
  /** debited above everything that receipts until then say */
  | ({ readonly kind: "excess"; readonly amount: bigint } & CycleName)
  /** receipts that are not held, and what they charged by the sums of the next one */
  | ({ readonly kind: "gap"; readonly from: number; readonly to: number; readonly amount: bigint } & ReceiptSeries)
  /** `number`: two receipts of a signer have one number. `sum`: the sums of two of them contradict each other */
  | ({ readonly kind: "contradiction"; readonly reason: "number" | "sum"; readonly sequence: number } & ReceiptSeries)
  /** charges more than its own units cost */
  | ({ readonly kind: "overpriced"; readonly sequence: number; readonly amount: bigint } & ReceiptSeries)
  /** signed by an account without the right on the cycle's plan, or by nobody; or the chain has no such cycle */
  | ({ readonly kind: "forged"; readonly sequence: number; readonly signer: Address | undefined } & CycleName)
  /** of another subscription, or of another request than the one that was answered, or no receipt at all */
  | { readonly kind: "foreign"; readonly idHash: Hex; readonly reason: "subscription" | "request" | "malformed" };

/** One subscription's result. */
export interface AuditedSubscription {
  readonly chainId: number;
  readonly turnpike: Address;
  /** its records, the oldest first: rekeys move one to the next */
  readonly idHashes: readonly Hex[];
  /** the blocks that were read, inclusive */
  readonly fromBlock: number;
  readonly toBlock: number;
  readonly cycles: readonly AuditedCycle[];
  readonly findings: readonly Finding[];
  readonly receipts: readonly HeldReceipt[];
}

/** Says in one line what was found. */
export function describeFinding(finding: Finding): string {
  anObject(finding, "finding");
  for (const [name, value] of Object.entries(finding))
    if (typeof value === "object" || typeof value === "symbol")
      throw wrongKind(value, `finding.${name}`, "a text or a number");
  if (finding.kind === "foreign")
    return `foreign: a receipt that is no evidence of this subscription (${finding.reason})`;
  const cycle = `in the cycle until ${finding.paidThrough}, version ${finding.version}`;
  switch (finding.kind) {
    case "excess":
      return `excess: ${finding.amount} base units were debited above all receipts ${cycle}`;
    case "gap":
      return `gap: receipts ${finding.from} to ${finding.to} of ${finding.signer} are not held, which charge ${finding.amount} base units ${cycle}`;
    case "contradiction":
      return finding.reason === "number"
        ? `contradiction: two receipts of ${finding.signer} have the number ${finding.sequence} ${cycle}`
        : `contradiction: the sum of receipt ${finding.sequence} of ${finding.signer} is not that of the one before and its charge ${cycle}`;
    case "overpriced":
      return `overpriced: receipt ${finding.sequence} of ${finding.signer} charges ${finding.amount} base units, more than its units cost, ${cycle}`;
    case "forged":
      return `forged: receipt ${finding.sequence} is signed by ${finding.signer ?? "nobody"}, which has no right to, ${cycle}`;
  }
}

export interface JudgedBill {
  readonly cycles: readonly AuditedCycle[];
  readonly findings: readonly Finding[];
}

/** Names each excess, gap, contradiction, overpriced and forged receipt. */
export function judgeBill({ idHashes, debits, receipts, maySign }: Bill): JudgedBill {
  const order = (a: CycleName, b: CycleName): number =>
    idHashes.indexOf(a.idHash) - idHashes.indexOf(b.idHash) || a.version - b.version || a.paidThrough - b.paidThrough;
  const findings: Finding[] = [];
  const cycles = new Map<string, BilledCycle>();
  const cycleOf = (cycle: CycleName): BilledCycle => {
    const name = nameOf(cycle);
    const key = Object.values(name).join(" ");
    const known = cycles.get(key) ?? { name, receipts: new Map(), debits: [] };
    cycles.set(key, known);
    return known;
  };
  for (const { receipt, signer } of receipts) {
    if (!idHashes.includes(receipt.idHash)) {
      findings.push({ kind: "foreign", idHash: receipt.idHash, reason: "subscription" });
    } else if (signer === undefined || !maySign(receipt, signer)) {
      findings.push({ kind: "forged", ...nameOf(receipt), sequence: receipt.sequence, signer });
    } else {
      const bySigner = cycleOf(receipt).receipts;
      const series = bySigner.get(signer) ?? [];
      bySigner.set(signer, series);
      series.push(receipt);
    }
  }
  for (const debit of debits) cycleOf(debit).debits.push(debit);
  let open = 0n;
  const audited: AuditedCycle[] = [];
  for (const cycle of [...cycles.values()].sort((a, b) => order(a.name, b.name))) {
    const walked = [...cycle.receipts].map(([signer, series]) => walk(series, signer));
    findings.push(...walked.flatMap((one) => one.findings));
    const receipted = sumOf(walked.map(({ covered }) => covered));
    const debited = sumOf(cycle.debits.map(({ amount }) => amount));
    const refunded = sumOf(cycle.debits.map((debit) => debit.refunded));
    // What a cycle did not debit may be debited in a later one; what is debited first has no receipt yet.
    const rest = open + receipted - (debited - refunded);
    if (rest < 0n) findings.push({ kind: "excess", ...cycle.name, amount: -rest });
    open = rest > 0n ? rest : 0n;
    const count = walked.reduce((sum, one) => sum + one.count, 0);
    audited.push({ ...cycle.name, debited, refunded, receipted, receipts: count, open });
  }
  return { cycles: audited, findings };
}

interface BilledCycle {
  readonly name: CycleName;
  /** by signer: gates without a common store number theirs apart, each by a key of its own */
  readonly receipts: Map<Address, UsageReceipt[]>;
  readonly debits: BilledDebit[];
}

const nameOf = ({ idHash, version, paidThrough }: CycleName): CycleName => ({ idHash, version, paidThrough });

interface Walked {
  readonly covered: bigint;
  readonly count: number;
  readonly findings: readonly Finding[];
}

/** Follows one signer's receipts of a cycle by their numbers. A sum that contradicts counts only by its own charge. */
function walk(receipts: readonly UsageReceipt[], signer: Address): Walked {
  const findings: Finding[] = [];
  let covered = 0n;
  let count = 0;
  let last = { sequence: 0, total: 0n };
  // An answer that is sent again carries its receipts again.
  const distinct = new Map(receipts.map((receipt) => [Object.values(receipt).join("\n"), receipt]));
  for (const receipt of [...distinct.values()].sort(byNumber)) {
    const { sequence, total, amount } = receipt;
    const name = { ...nameOf(receipt), signer };
    if (isOverpriced(receipt)) findings.push({ kind: "overpriced", ...name, sequence, amount });
    count += 1;
    if (sequence === last.sequence) {
      findings.push({ kind: "contradiction", ...name, reason: "number", sequence });
      continue;
    }
    const missing = total - last.total - amount;
    const isNext = sequence === last.sequence + 1;
    if (missing < 0n || (isNext && missing > 0n)) {
      findings.push({ kind: "contradiction", ...name, reason: "sum", sequence });
      covered += amount;
    } else covered += total - last.total;
    if (!isNext) {
      const amountOfGap = missing > 0n ? missing : 0n;
      findings.push({ kind: "gap", ...name, from: last.sequence + 1, to: sequence - 1, amount: amountOfGap });
    }
    last = { sequence, total };
  }
  return { covered, count, findings };
}

/** Of two receipts with one number the smaller sum counts: an excess is not hidden by a second receipt. */
function byNumber(a: UsageReceipt, b: UsageReceipt): number {
  return a.sequence - b.sequence || (a.total < b.total ? -1 : a.total > b.total ? 1 : a.amount < b.amount ? -1 : 1);
}

function sumOf(amounts: readonly bigint[]): bigint {
  let sum = 0n;
  for (const amount of amounts) sum += amount;
  return sum;
}
