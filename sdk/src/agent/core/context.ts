/** Defines what the agent's operations share, created once by `createAgent`. */

import type { ChainReader } from "../../chain/reader";
import type { Address, Clock, Hex, Network, TurnpikeDeployment } from "../../protocol";
import type { ReceiptStore } from "../ledger/evidence";
import type { AgentLedger } from "../ledger/ledger";
import type { Roots, Signer } from "../signing/wallet";
import type { Effects } from "./effects";
import type { Facilitators } from "./facilitators";
import type { Policy } from "./policy";

/** A token whose signing domain is configured. */
export interface KnownToken {
  readonly chainId: number;
  readonly address: Address;
  /** of the token's EIP-712 domain */
  readonly name: string;
  readonly version: string;
}

export interface AgentContext {
  readonly effects: Effects;
  readonly policy: Policy;
  readonly signer: Signer;
  readonly roots: Roots;
  readonly facilitators: Facilitators;
  readonly networks: readonly Network[];
  readonly tokens: readonly KnownToken[];
  /** the contract that permits name as spender; undefined for chains that are not configured */
  deploymentOf(chainId: number): TurnpikeDeployment | undefined;
  /** the agent's own RPC of a chain, where it has one */
  chainOf(chainId: number): ChainReader | undefined;
  /** chain time where the caller provides it; otherwise it is read */
  readonly chainClock: Clock | undefined;
  /** whether requests follow redirects only within the origin that the caller named */
  readonly withinOrigin: boolean;
  readonly recentChanges: RecentChanges;
  /** when `fetch` last looked for another payee of a subscription's plan, unix seconds, by id hash */
  readonly payeeLooks: Map<Hex, number>;
  /** where usage receipts are kept */
  readonly receipts: ReceiptStore;
  ledger(): Promise<AgentLedger>;
  closeLedger(): Promise<void>;
}

/** `status`: it has just become active. `cap`: its cap was raised. `plan`: it has moved to another plan. */
export type Change = "status" | "cap" | "plan";

/** What a 402 says of a subscription: a stable code, and its reason where it has one. */
interface Refusal {
  readonly error: string | undefined;
  readonly reason: string | undefined;
}

interface Mark {
  readonly change: Change;
  readonly untilMs: number;
  isTried: boolean;
}

const EXHAUSTED = "AllowanceExhausted";

/** The changes that a gate with an older record may answer with each refusal. A code that is not listed fits any. */
const EXPLAINED: Readonly<Record<string, readonly Change[]>> = {
  SubscriptionNotActive: ["status", "plan"],
  [EXHAUSTED]: ["cap", "plan"],
  InsufficientFunds: ["cap", "plan"],
};

/** The same where the gate says which status it read. */
const EXPLAINED_REASONS: Readonly<Record<string, readonly Change[]>> = {
  unknown: ["status"],
  paused: ["status"],
  past_due: ["status"],
  expired: ["status"],
  cancelled: [],
  other_plan: ["plan"],
};

function isExplained(change: Change, { error = "", reason = "" }: Refusal): boolean {
  const byReason = error === "SubscriptionNotActive" ? EXPLAINED_REASONS[reason] : undefined;
  return (byReason ?? EXPLAINED[error])?.includes(change) ?? true;
}

/**
 * Subscriptions that have just changed: for a while a refusal that an older record explains is retried rather than paid
 * around. Knows no gate.
 */
export class RecentChanges {
  readonly #marks = new Map<Hex, Map<Change, Mark>>();
  /** where the cap was refused last */
  readonly #exhaustedAt = new Map<Hex, string>();
  readonly #freshMs: number;

  constructor(freshMs: number) {
    this.#freshMs = freshMs;
  }

  mark(idHash: Hex, change: Change): void {
    const marks = this.#marks.get(idHash) ?? new Map<Change, Mark>();
    marks.set(change, { change, untilMs: performance.now() + this.#freshMs, isTried: false });
    this.#marks.set(idHash, marks);
  }

  /** Removes what a later change has overtaken: a refusal is current from then on. */
  drop(idHash: Hex, changes: readonly Change[]): void {
    for (const change of changes) this.#marks.get(idHash)?.delete(change);
  }

  /** It was served at `place`: the gate has read that it is active, and of a cap that it refused there the raise. */
  confirmed(idHash: Hex, place: string): void {
    this.drop(idHash, ["status"]);
    if (this.#exhaustedAt.get(idHash) !== place) return;
    this.#exhaustedAt.delete(idHash);
    this.drop(idHash, ["cap"]);
  }

  refused(idHash: Hex, place: string, { error }: Refusal): void {
    if (error === EXHAUSTED) this.#exhaustedAt.set(idHash, place);
  }

  /** Returns the recent changes of any of these that may explain the refusal. */
  explaining(entries: readonly { readonly id: Hex }[], refusal: Refusal): readonly Mark[] {
    const marks = entries.flatMap(({ id }) => [...(this.#marks.get(id)?.values() ?? [])]);
    return marks.filter(({ change, untilMs }) => untilMs > performance.now() && isExplained(change, refusal));
  }
}
