/** Checks whether a provider's own operator key can collect debits: the contract allows it, and it can pay for gas. */
import type { Operator } from "../../chain/operator";
import { missingOperators, topicOfAccount } from "../../chain/operators";
import type { Rpc } from "../../chain/rpc";
import type { Address } from "../../protocol/address";
import type { Hex } from "../../protocol/hex";
import type { CollectionCheck, CollectionFault } from "./collection";

export interface OperatorRightOptions {
  readonly rpc: Rpc;
  readonly turnpike: Address;
  readonly operator: Pick<Operator, "address" | "gasFunds">;
}

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
