/** Which meter a provider's options ask for: debits by its operator's own key, or through the Facilitator. */
import { join } from "node:path";
import type { DebitSender } from "../chain/debit-sender";
import { createOperator } from "../chain/operator";
import type { Rpc } from "../chain/rpc";
import { type Clock, ConfigError, type Hex, randomBytes, toAmount, toHex } from "../protocol";
import type { MeterPort } from "./meter-port";
import { createFacilitatorSender } from "./metering/facilitator-sender";
import { createFileMeterStore } from "./metering/file-store";
import { createMeter } from "./metering/meter";
import type { ProviderOptions } from "./options";
import type { Settings } from "./settings";

const PRIVATE_KEY = /^0x[0-9a-fA-F]{64}$/;

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
  const sender: DebitSender = operatorKey === undefined ? viaFacilitator() : operator.sender;
  const path = join(meterFolder, `meter-${network.chainId}-${turnpike.slice(2, 10).toLowerCase()}.log`);
  const store = options.meterStore ?? createFileMeterStore({ path });
  if (store.isShared && settle === "each") {
    throw new ConfigError('settle: "each" is for one process: gates that share a meterStore merge their debits');
  }
  return createMeter({
    ...{ store, sender, states: operator.states, clock, settle },
    ...(maxUnsettled === undefined ? {} : { limits: { maxUnsettled: toAmount(maxUnsettled, "maxUnsettled") } }),
    ...(onMeterEvent ? { report: onMeterEvent } : {}),
  });

  function viaFacilitator(): DebitSender {
    if (!facilitator || apiKey === undefined)
      throw new ConfigError("apiKey needs facilitator (TURNPIKE_FACILITATOR_URL)");
    const fetchOption = options.fetch ? { fetch: options.fetch as typeof fetch } : {};
    return createFacilitatorSender({ url: facilitator.url, apiKey, ...fetchOption });
  }
}
