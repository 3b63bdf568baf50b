/** Which meter a provider's options ask for: debits by its operator's own key, or through the Facilitator. */
import { join } from "node:path";
import type { DebitSender } from "../chain/debit-sender";
import { createOperator } from "../chain/operator";
import type { Rpc } from "../chain/rpc";
import { createFacilitatorClient } from "../facilitator/client";
import { type Clock, ConfigError, type ErrorCode, type Hex, randomBytes, toAmount, toHex } from "../protocol";
import type { MeterPort } from "./meter-port";
import { Collection, type CollectionCheck } from "./metering/collection";
import { facilitatorRight } from "./metering/facilitator-right";
import { createFacilitatorSender } from "./metering/facilitator-sender";
import { createFileMeterStore } from "./metering/file-store";
import { createMeter } from "./metering/meter";
import { operatorRight } from "./metering/operator-right";
import type { ProviderOptions } from "./options";
import type { Settings } from "./settings";

const PRIVATE_KEY = /^0x[0-9a-fA-F]{64}$/;
/** A refusal by these says that no debit of the plan, or none by this key, would be collected. */
const CONTRADICTS_RIGHT: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  ...(["NotOperator", "NotProvider", "UnknownSubscription", "PaymentNotAllowed"] as const),
  ...(["InvalidApiKey", "ScopeMissing", "AccessRefused"] as const),
]);
/** The Facilitator is asked at start-up, and by requests that wait for its answer. */
const RIGHT_TIMEOUT_MS = 10_000;

/** @returns undefined when no key to debit with is configured. @throws ConfigError */
export function meterOf(
  options: ProviderOptions,
  { deployment, network, facilitator, confirmations }: Settings,
  clock: Clock,
  rpc: Rpc | undefined,
): MeterPort | undefined {
  const { operatorKey, apiKey, meterFolder = ".turnpike", settle = "merged", maxUnsettled, onMeterEvent } = options;
  if (operatorKey === undefined && apiKey === undefined) return undefined;
  if (!rpc || !deployment) throw new ConfigError("metering needs rpcUrl (TURNPIKE_RPC_URL) and turnpike");
  if (operatorKey !== undefined && !PRIVATE_KEY.test(operatorKey)) {
    throw new ConfigError("operatorKey (TURNPIKE_OPERATOR_KEY) is no private key: 0x and 64 hex digits");
  }
  const { turnpike, chainId } = deployment;
  // Where the Facilitator sends, the operator is asked for states only, and its key holds nothing.
  const signer: Hex = operatorKey ?? toHex(randomBytes(32));
  const operator = createOperator({ rpc, turnpike, chainId, signer, confirmations });
  const onRefused = (reason: ErrorCode): void => {
    if (CONTRADICTS_RIGHT.has(reason)) collection.doubt();
  };
  const { sender, right } =
    operatorKey === undefined
      ? viaFacilitator(rpc)
      : { sender: operator.sender, right: operatorRight({ rpc, turnpike, operator }) };
  const path = join(meterFolder, `meter-${network.chainId}-${turnpike.slice(2, 10).toLowerCase()}.log`);
  const store = options.meterStore ?? createFileMeterStore({ path });
  if (store.isShared && settle === "each") {
    throw new ConfigError('settle: "each" is for one process: gates that share a meterStore merge their debits');
  }
  const report = onMeterEvent ?? (() => undefined);
  const meter = createMeter({
    ...{ store, sender, states: operator.states, clock, settle, report, onRefused },
    ...(maxUnsettled === undefined ? {} : { limits: { maxUnsettled: toAmount(maxUnsettled, "maxUnsettled") } }),
  });
  const collection = new Collection({
    ...{ right, report, monotonicMs: () => performance.now() },
    warn: (message) => process.emitWarning(message, { code: "TurnpikeCannotCollect" }),
    onChange: (isAnyCollectable) => meter.setCollecting(isAnyCollectable),
  });
  return {
    ...meter,
    prove: (planIds) => collection.prove(planIds),
    proveAny: (planIds) => collection.proveAny(planIds),
    canCollect: (planId) => collection.isProved(planId),
    onBlocks: (topics) => collection.onBlocks(topics),
    async stop() {
      collection.close();
      await meter.stop();
    },
  };

  function viaFacilitator(chain: Rpc): { readonly sender: DebitSender; readonly right: CollectionCheck } {
    if (!facilitator || apiKey === undefined)
      throw new ConfigError("apiKey needs facilitator (TURNPIKE_FACILITATOR_URL)");
    const { url } = facilitator;
    const shared = { url, apiKey, ...(options.fetch ? { fetch: options.fetch as typeof fetch } : {}) };
    const client = createFacilitatorClient({ ...shared, timeoutMs: RIGHT_TIMEOUT_MS });
    return {
      sender: createFacilitatorSender({ ...shared, onRefused }),
      right: facilitatorRight({ rpc: chain, turnpike, client, url }),
    };
  }
}
