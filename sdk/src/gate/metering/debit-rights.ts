/** Checks whether debits can be collected: by a provider's own operator key, or by a Facilitator for an API key. */
import type { Operator } from "../../chain/operator";
import { missingOperators, topicOfAccount } from "../../chain/operators";
import type { Rpc } from "../../chain/rpc";
import type { DebitRightsOutcome, FacilitatorClient } from "../../facilitator/client";
import { type DebitRight, MAX_DEBIT_RIGHTS } from "../../facilitator/debits";
import type { Address } from "../../protocol/address";
import { isErrorCode, type TurnpikeError } from "../../protocol/errors";
import type { Hex } from "../../protocol/hex";
import type { CollectionCheck, CollectionFault } from "./collection";

export interface OperatorRightOptions {
  readonly rpc: Rpc;
  readonly turnpike: Address;
  readonly operator: Pick<Operator, "address" | "gasFunds">;
}

/** Checks a provider's own operator key: the contract allows it to debit, and it can pay for gas. */
export function operatorRight({ rpc, turnpike, operator }: OperatorRightOptions): CollectionCheck {
  const { address } = operator;

  async function faultOf(planId: Hex): Promise<CollectionFault | undefined> {
    const missing = await missingOperators({ rpc, turnpike }, planId, [address]);
    if (missing.length === 0) return undefined;
    return {
      reason: "NotOperator",
      message: `operatorKey (TURNPIKE_OPERATOR_KEY) is the key of ${address}, which is no operator of plan ${planId}: the plan's provider calls setOperator(${planId}, ${address}, 1), or use the key of an operator`,
    };
  }

  async function faultOfGas(planIds: readonly Hex[]): Promise<CollectionFault | undefined> {
    const { held, needed } = await operator.gasFunds();
    if (held >= needed) return undefined;
    return {
      reason: "InsufficientGas",
      message: `operatorKey (TURNPIKE_OPERATOR_KEY) is the key of ${address}, which holds ${held} wei; one debit of plan ${planIds[0]} needs ${needed} wei for gas: send it some`,
    };
  }

  return {
    async check(planIds) {
      const [gas, ...faults] = await Promise.all([faultOfGas(planIds), ...planIds.map(faultOf)]);
      return faults.map((fault) => fault ?? gas);
    },
    // Without a plan there is nothing that a key could be refused for.
    checkKey: async () => undefined,
    isTouched: (planId, topics) => topics.has(planId) && topics.has(topicOfAccount(address)),
  };
}

export interface FacilitatorRightOptions {
  readonly rpc: Rpc;
  readonly turnpike: Address;
  /** with the provider's API key */
  readonly client: Pick<FacilitatorClient, "debitRights">;
  readonly url: string;
}

/**
 * Checks an API key: it is valid and has the scope, the Facilitator debits these plans for this provider, and on this
 * gate's own chain each of its relayers is an operator of them.
 */
export function facilitatorRight({ rpc, turnpike, client, url }: FacilitatorRightOptions): CollectionCheck {
  let relayers: readonly Address[] = [];
  /** by the Facilitator's last answer */
  const allowed = new Map<Hex, DebitRight>();

  async function ask(planIds: readonly Hex[]): Promise<DebitRightsOutcome> {
    try {
      return await client.debitRights(planIds);
    } catch (error) {
      // During an outage its last answer counts, so that an outage alone closes no gate; the chain is still read.
      const rights = planIds.flatMap((planId) => allowed.get(planId) ?? []);
      if (rights.length < planIds.length) throw error;
      return { kind: "answered", relayers, rights };
    }
  }

  function faultOfKey({ code, message }: TurnpikeError, planId?: Hex): CollectionFault {
    const owner = planId === undefined ? "the plans' provider" : `the provider of plan ${planId}`;
    return {
      reason: code,
      message: `apiKey (TURNPIKE_API_KEY) was refused by the Facilitator at ${url} (${code}: ${message}): create one with the scope debits, signed by ${owner}`,
    };
  }

  async function check(planIds: readonly Hex[]): Promise<(CollectionFault | undefined)[]> {
    const faults: (CollectionFault | undefined)[] = [];
    for (let from = 0; from < planIds.length; from += MAX_DEBIT_RIGHTS) {
      faults.push(...(await checkSome(planIds.slice(from, from + MAX_DEBIT_RIGHTS))));
    }
    return faults;
  }

  async function checkSome(planIds: readonly Hex[]): Promise<(CollectionFault | undefined)[]> {
    const outcome = await ask(planIds);
    if (outcome.kind === "refused") {
      allowed.clear();
      return planIds.map((planId) => faultOfKey(outcome.error, planId));
    }
    relayers = outcome.relayers;
    for (const right of outcome.rights) {
      if (right.status === "allowed") allowed.set(right.planId, right);
      else allowed.delete(right.planId);
    }
    return Promise.all(outcome.rights.map(faultOf));
  }

  async function faultOf(right: DebitRight): Promise<CollectionFault | undefined> {
    const { planId } = right;
    // The Facilitator's index may be some blocks behind; both have to agree.
    const missing = await missingOperators({ rpc, turnpike }, planId, relayers);
    if (missing.length > 0) {
      const names = missing.join(", ");
      return {
        reason: "NotOperator",
        message: `apiKey (TURNPIKE_API_KEY): the Facilitator at ${url} debits with ${names}, which is no operator of plan ${planId}: the plan's provider calls setOperator(${planId}, account, 1) for each`,
      };
    }
    if (right.status === "allowed") return undefined;
    return {
      reason: isErrorCode(right.code) ? right.code : "Internal",
      message: `apiKey (TURNPIKE_API_KEY): the Facilitator at ${url} does not debit plan ${planId} (${right.code}: ${right.message}): correct that, or set operatorKey (TURNPIKE_OPERATOR_KEY)`,
    };
  }

  return {
    check,
    async checkKey() {
      const outcome = await client.debitRights([]);
      return outcome.kind === "refused" ? faultOfKey(outcome.error) : undefined;
    },
    isTouched: (planId, topics) => topics.has(planId) && relayers.some((one) => topics.has(topicOfAccount(one))),
  };
}
