import type { Clock, Network, TurnpikeDeployment } from "../../protocol";
import { anObject, anything, aText, callback, listOf, optionsOf, recordOf, textOr } from "../../protocol/arguments";
import type { OpenTelemetryApi } from "../../protocol/tracing";
import type { ReceiptStore } from "../ledger/evidence";
import type { Ledger } from "../ledger/ledger-store";
import type { AgentWallet } from "../signing/wallet";
import { type AgentContext, type KnownToken, RecentChanges } from "./context";
import type { AgentEvent, AgentLimits, Sleep } from "./effects";
import type { FacilitatorOption } from "./facilitators";
import type { AgentPolicy } from "./policy-options";

/** What an agent is made of. */
export interface AgentOptions {
  /** an ethers signer, a viem account or WalletClient, an EIP-1193 provider, or `walletFromKey("0x...")` */
  readonly wallet: AgentWallet;
  readonly policy: AgentPolicy;
  /**
   * the only Facilitators that ever get a signature: base URLs, with or without pinned signers; the first is used where
   * none is named
   */
  readonly facilitators: readonly FacilitatorOption[];
  /** default: in memory, forgotten with the process */
  readonly ledger?: Ledger;
  /** where usage receipts are kept, for {@link Agent.audit}; default: in memory, forgotten with the process */
  readonly receipts?: ReceiptStore;
  /** Turnpike's addresses: needed for subscriptions, since signatures and permits name the contract */
  readonly deployments?: readonly TurnpikeDeployment[];
  /** networks that are in no preset */
  readonly networks?: readonly Network[];
  /** tokens whose signing domain is known for sure */
  readonly tokens?: readonly KnownToken[];
  /** the agent's own JSON-RPC, trusted before any Facilitator: by chain id, or one URL with a single deployment */
  readonly rpc?: string | Readonly<Record<number, string>>;
  /** what every request goes through; default: the platform's */
  readonly fetch?: typeof fetch;
  /** chain time, where it need not be asked for */
  readonly clock?: Clock;
  readonly sleep?: Sleep;
  /** Called with progress, in a microtask of its own: what it throws never affects a payment. */
  readonly onEvent?: (event: AgentEvent) => void;
  readonly limits?: Partial<AgentLimits>;
  /**
   * the module `@opentelemetry/api`: calls of `fetch`, `pay` and `subscribe`, and all requests, become spans of the
   * program's traces, which providers and Facilitators continue by the header `traceparent`
   */
  readonly openTelemetry?: OpenTelemetryApi;
}

/** What one program's agents of one wallet share, and how they reach providers that the program does not trust. */
export interface AgentEnvironment {
  /** what an agent remembers beside its ledger, for programs that create an agent for each call */
  readonly memory?: AgentMemory;
  /** what requests to the configured Facilitators and RPCs go through; default: the options' fetch */
  readonly serviceFetch?: typeof fetch;
  /** never send a request to another origin than the caller named, redirects included; default false */
  readonly withinOrigin?: boolean;
}

export type AgentMemory = Pick<AgentContext, "recentChanges" | "payeeLooks">;

/** Returns a memory for agents with these limits. */
export function createAgentMemory({ freshMs }: Pick<AgentLimits, "freshMs">): AgentMemory {
  return { recentChanges: new RecentChanges(freshMs), payeeLooks: new Map() };
}

/** `policy`, `facilitators`, `limits` and `wallet` are checked where they are read. */
const check = optionsOf<AgentOptions>({
  wallet: anything,
  policy: anything,
  facilitators: anything,
  ledger: anObject,
  receipts: anObject,
  deployments: listOf(anObject),
  networks: listOf(anObject),
  tokens: listOf(anObject),
  rpc: textOr(recordOf(aText)),
  fetch: callback,
  clock: anObject,
  sleep: callback,
  onEvent: callback,
  limits: anObject,
  openTelemetry: anObject,
});

/** @throws ConfigError that names the option */
export const checkAgentOptions = (options: unknown): void => check(options, "");
