/** Refuses settings that are well-formed each, and with which nothing would settle or start. */
import { ConfigError } from "turnpike/protocol";
import type { KeySource } from "./key-source";

interface CheckedSettings {
  readonly tokens: readonly { readonly address: string }[];
  readonly relayerKeys: readonly KeySource[];
  readonly batchGas: number;
  readonly gasPerItem: number;
  readonly minWindowSec: number;
  readonly maxWindowSec: number;
  readonly priorityFeeWei: bigint;
  readonly maxFeePerGasWei: bigint;
  readonly host: string;
  readonly port: number;
  readonly metricsHost: string;
  readonly metricsPort: number | undefined;
}

/** Gas of a batch beside its payments. */
const BATCH_OVERHEAD_GAS = 100_000;

/** @throws ConfigError naming the settings that contradict each other, a line for each pair, and what to change */
export function refuseContradictions(config: CheckedSettings): void {
  const found = [...contradictions(config)];
  if (found.length > 0) throw new ConfigError(found.join("\n"));
}

function* contradictions(config: CheckedSettings): Generator<string> {
  const { batchGas, gasPerItem, minWindowSec, maxWindowSec, priorityFeeWei, maxFeePerGasWei } = config;
  const { host, port, metricsHost, metricsPort } = config;
  const token = repeated(config.tokens.map(({ address }) => address));
  if (token) yield `TOKENS names ${token} twice: remove one`;
  if (repeated(config.relayerKeys.map(nameOf)))
    yield "RELAYER_KEYS names a key twice: each key is one lane, so remove one";
  if (gasPerItem + BATCH_OVERHEAD_GAS > batchGas)
    yield `BATCH_GAS ${batchGas} holds no payment of GAS_PER_ITEM ${gasPerItem}: raise it to ${gasPerItem + BATCH_OVERHEAD_GAS} at least`;
  if (minWindowSec >= maxWindowSec)
    yield `MIN_WINDOW_SEC ${minWindowSec} is not below MAX_WINDOW_SEC ${maxWindowSec}: every payment would be refused`;
  if (priorityFeeWei > maxFeePerGasWei)
    yield `PRIORITY_FEE_WEI ${priorityFeeWei} is above MAX_FEE_PER_GAS_WEI ${maxFeePerGasWei}: nothing would be sent`;
  if (metricsPort !== undefined && port !== 0 && port === metricsPort && host === metricsHost)
    yield `METRICS_PORT and PORT are both ${port}: set METRICS_PORT to another one`;
}

const repeated = (names: readonly string[]): string | undefined =>
  names.find((name, place) => names.indexOf(name) !== place);

const nameOf = (source: KeySource): string => (source.kind === "local" ? source.key.reveal() : source.keyId);
