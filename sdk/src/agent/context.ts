/** What the agent's acts share, wired once by `createAgent`. */
import type { Address, Clock, Network, TurnpikeDeployment } from "../protocol";
import type { Book } from "./book";
import type { ChainReader } from "./chain-reader";
import type { Effects } from "./effects";
import type { Facilitators } from "./facilitators";
import type { Fresh } from "./fresh";
import type { Policy } from "./policy";
import type { Roots } from "./secrets";
import type { Signer } from "./wallet";

/** A token whose signing domain needs nobody's word. */
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
  /** the contract that permits name as spender; undefined for chains the agent was not told of */
  deploymentOf(chainId: number): TurnpikeDeployment | undefined;
  /** the agent's own RPC of a chain, where it has one */
  chainOf(chainId: number): ChainReader | undefined;
  /** chain time where the caller fixed it; otherwise it is asked for */
  readonly chainClock: Clock | undefined;
  readonly fresh: Fresh;
  book(): Promise<Book>;
  closeBook(): Promise<void>;
}
