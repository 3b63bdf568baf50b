/** Decides whether this service may collect debits of a plan. */
import type { DebitRightWire } from "turnpike/facilitator";
import { type Address, type ErrorCode, type Hex, Unavailable } from "turnpike/protocol";
import type { FacilitatorConfig } from "../../config";
import type { Store } from "../../db/open";
import type { Indexer } from "../../indexer";
import type { Relayer } from "../../relayer";
import { policyAgainst } from "../policy";
import { type DebitRecord, findPlan, missingOperators } from "./records";

export interface DebitRulesOptions {
  readonly config: Pick<FacilitatorConfig, "chainId" | "tokens" | "payTo">;
  readonly store: Store;
  readonly relayer: Pick<Relayer, "addresses">;
  readonly indexer: Pick<Indexer, "catchUp">;
}

export interface DebitRights {
  /** the accounts that send debits */
  readonly relayers: Address[];
  readonly rights: DebitRightWire[];
}

export interface PlanFault {
  readonly code: ErrorCode;
  readonly message: string;
}

export class DebitRules {
  readonly #options: DebitRulesOptions;

  constructor(options: DebitRulesOptions) {
    this.#options = options;
  }

  /** Simulated without a sender, every debit would fail. @throws Unavailable */
  requireRelayer(): void {
    if (this.#options.relayer.addresses.length === 0)
      throw new Unavailable("No relayer of this service is known yet.", { retryAfterSec: 5 });
  }

  /** Returns the reason to refuse every debit of the plan, if any. */
  async faultOfPlan(plan: NonNullable<DebitRecord["plan"]>): Promise<PlanFault | undefined> {
    const { config, store, relayer } = this.#options;
    const { code, message } = policyAgainst(plan, config as FacilitatorConfig) ?? {};
    if (code && message !== undefined) return { code, message };
    const missing = await missingOperators(store.db, config.chainId, plan.id, relayer.addresses);
    if (missing.length === 0) return undefined;
    return { code: "NotOperator", message: `make the relayer an operator of the plan: ${missing.join(", ")}` };
  }

  /** Returns, in order, whether debits of each plan would be collected for this provider, for any subscriber. */
  async rights(provider: Address, planIds: readonly Hex[]): Promise<DebitRights> {
    const { relayer, indexer } = this.#options;
    this.requireRelayer();
    const relayers = [...relayer.addresses];
    const judge = () => Promise.all(planIds.map((planId) => this.#rightOf(provider, planId)));
    const rights = await judge();
    if (rights.every(({ status }) => status === "allowed")) return { relayers, rights };
    // The plan or its operator may be in a block that is not indexed yet.
    await indexer.catchUp();
    return { relayers, rights: await judge() };
  }

  async #rightOf(provider: Address, planId: Hex): Promise<DebitRightWire> {
    const fault = await this.#faultOfRight(provider, planId);
    if (!fault) return { status: "allowed", planId };
    return { status: "refused", planId, code: fault.code, message: fault.message.slice(0, 512) };
  }

  async #faultOfRight(provider: Address, planId: Hex): Promise<PlanFault | undefined> {
    const { config, store } = this.#options;
    const plan = await findPlan(store.db, config.chainId, planId);
    if (!plan) return { code: "UnknownPlan", message: `plan ${planId} does not exist on chain ${config.chainId}` };
    if (plan.provider !== provider) {
      return { code: "NotProvider", message: `the API key is of ${provider}, the plan's provider is ${plan.provider}` };
    }
    return this.faultOfPlan(plan);
  }
}
