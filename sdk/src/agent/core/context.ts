/** Defines what the agent's operations share, created once by `createAgent`. */
import type { Address, Clock, Hex, Network, TurnpikeDeployment } from "../../protocol";
import type { AgentLedger } from "../ledger/ledger";
import type { Roots } from "../signing/secrets";
import type { Signer } from "../signing/wallet";
import type { ChainReader } from "./chain-reader";
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
  readonly recentChanges: RecentChanges;
  ledger(): Promise<AgentLedger>;
  closeLedger(): Promise<void>;
}

/** `status`: it has just become active. `terms`: its cap or plan has just changed. */
type Change = "status" | "terms";

/**
 * Tracks subscriptions that have just changed: for a while a gate may refuse them by an old record, and the request is
 * retried rather than paid for. Knows no gate.
 */
export class RecentChanges {
  readonly #marks = new Map<Hex, { readonly untilMs: number; readonly change: Change }>();
  readonly #freshMs: number;

  constructor(freshMs: number) {
    this.#freshMs = freshMs;
  }

  mark(idHash: Hex, change: Change): void {
    this.#marks.set(idHash, { untilMs: performance.now() + this.#freshMs, change });
  }

  /** Ends tracking of a status change: the gate has served the subscription. It proves nothing about a new cap. */
  confirmed(idHash: Hex): void {
    if (this.#marks.get(idHash)?.change === "status") this.#marks.delete(idHash);
  }

  /** Returns whether a refusal of any of these may be out of date. */
  has(entries: readonly { readonly id: Hex }[]): boolean {
    return entries.some(({ id }) => (this.#marks.get(id)?.untilMs ?? 0) > performance.now());
  }
}
