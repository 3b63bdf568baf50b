/**
 * Creates the meter that a provider's options ask for: debits by its operator's own key, or through the Facilitator.
 */
import { basename, dirname, join, resolve } from "node:path";
import type { DebitItem, DebitOutcome, DebitResult, DebitSender } from "../../chain/debit-sender";
import { createOperator } from "../../chain/operator";
import type { Rpc } from "../../chain/rpc";
import { createFacilitatorClient } from "../../facilitator/client";
import type { DebitRequestWire } from "../../facilitator/debits";
import type { FetchLike } from "../../facilitator/transport";
import {
  type Clock,
  ConfigError,
  type ErrorCode,
  type Hex,
  isErrorCode,
  isPrivateKey,
  randomBytes,
  toAmount,
  toHex,
  Unavailable,
} from "../../protocol";
import type { TurnpikeError } from "../../protocol/errors";
import { LogCells } from "../cells/log";
import type { ProviderOptions } from "../core/options";
import type { Settings } from "../core/settings";
import { Collection, type CollectionCheck } from "../metering/collection";
import { facilitatorRight, operatorRight } from "../metering/debit-rights";
import { createMeter, type MeterPort } from "../metering/meter";
import { sharedMeterStore } from "../metering/shared-store";
import type { MeterStore } from "../metering/store";

/** Refusals that mean that no debit of the plan, or none by this key, can be collected. */
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
  const { operatorKey, apiKey, meterFolder = ".turnpike", maxUnsettled, onMeterEvent } = options;
  if (operatorKey === undefined && apiKey === undefined) return undefined;
  if (!rpc || !deployment) throw new ConfigError("metering needs rpcUrl (TURNPIKE_RPC_URL) and turnpike");
  if (operatorKey !== undefined && !isPrivateKey(operatorKey)) {
    throw new ConfigError("operatorKey (TURNPIKE_OPERATOR_KEY) is no private key: 0x and 64 hex digits, not all zeros");
  }
  const { turnpike, chainId } = deployment;
  // Where the Facilitator sends, the operator only reads states, and its key holds nothing.
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
  const report = onMeterEvent ?? (() => undefined);
  const meter = createMeter({
    store,
    place: `eip155:${chainId}:${turnpike.toLowerCase()}`,
    sender,
    states: operator.states,
    clock,
    report,
    onRefused,
    receipts: options.receiptKey !== undefined,
    ...(maxUnsettled === undefined ? {} : { limits: { maxUnsettled: toAmount(maxUnsettled, "maxUnsettled") } }),
  });
  const collection = new Collection({
    right,
    report,
    monotonicMs: () => performance.now(),
    warn: (message) => process.emitWarning(message, { code: "TurnpikeCannotCollect" }),
    onChange: (canCollectAny) => meter.setCollecting(canCollectAny),
  });
  return {
    ...meter,
    prove: (planIds) => collection.prove(planIds),
    proveAny: (planIds) => collection.proveAny(planIds),
    canCollect: (planId) => collection.isProved(planId),
    onBlocks(topics) {
      collection.onBlocks(topics);
      meter.onBlocks(topics);
    },
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

/**
 * Debits through a Facilitator's `POST /debits`, for providers that made its relayer their plan's operator. The
 * Facilitator is idempotent by idHash and index; the gate trusts what it reports about them.
 */
export interface FacilitatorSenderOptions {
  readonly url: string;
  /** the provider's; goes into one header and nowhere else */
  readonly apiKey: string;
  readonly fetch?: FetchLike;
  /** default 30,000 */
  readonly timeoutMs?: number;
  /** called when the Facilitator refuses the API key itself */
  readonly onRefused?: (reason: ErrorCode) => void;
}

const TIMEOUT_MS = 30_000;

export function createFacilitatorSender({
  timeoutMs = TIMEOUT_MS,
  onRefused,
  ...options
}: FacilitatorSenderOptions): DebitSender {
  const client = createFacilitatorClient({ ...options, timeoutMs });

  /** @throws Unavailable whenever the outcome is not known; a key that is refused decides nothing about the debits */
  async function post(payload: string) {
    const outcome = await client.debits(JSON.parse(payload) as DebitRequestWire[]);
    if (outcome.kind === "answered") return outcome.results;
    onRefused?.(outcome.error.code);
    throw new Unavailable(`The Facilitator did not take the debits: ${outcome.error.message}`, {
      cause: outcome.error,
      retryAfterSec: 5,
    });
  }

  async function outcome(items: readonly DebitItem[], payloads: readonly string[]): Promise<DebitOutcome> {
    const payload = payloads[0];
    if (payload === undefined) return { kind: "final", results: items.map(() => ({ kind: "void" })) };
    const results: DebitResult[] = [];
    for (const answer of await post(payload)) {
      if (answer.status === "pending") return { kind: "pending" };
      if (answer.status === "settled") results.push({ kind: "settled" });
      else results.push({ kind: "failed", reason: isErrorCode(answer.code) ? answer.code : "Internal" });
    }
    return results.length === items.length ? { kind: "final", results } : { kind: "pending" };
  }

  return {
    // The Facilitator simulates before it sends; an item that would fail comes back failed, at no cost.
    prepare: async (items) => ({ items, refused: [], payload: items.length === 0 ? undefined : encode(items) }),
    async submit(payloads) {
      if (payloads[0] !== undefined) await post(payloads[0]);
    },
    outcome,
    replace: async () => undefined,
  };
}

function encode(items: readonly DebitItem[]): string {
  const debits: DebitRequestWire[] = items.map(({ idHash, amount, index }) => ({
    idHash,
    amount: amount.toString(),
    index,
  }));
  return JSON.stringify(debits);
}

export interface FileMeterStoreOptions {
  /** the files' folder and the start of their names, with `.log` */
  readonly path: string;
  /** how long the sender's lease outlives its last sign of life; default 20,000 */
  readonly leaseMs?: number;
  /** how much a file may grow before it is replaced by its living records, at least; default 32 MiB */
  readonly compactAtBytes?: number;
  /** Called once, when the disk has failed; default: a warning. Everything is refused until a restart. */
  readonly onFailure?: (error: TurnpikeError) => void;
}

const MIB = 1_024 * 1_024;

/** Keeps a meter's books in one file that any number of processes on this machine share. */
export function createFileMeterStore(options: FileMeterStoreOptions): MeterStore {
  const { leaseMs = 20_000, compactAtBytes: rotateBytes = 32 * MIB, onFailure } = options;
  const path = resolve(options.path);
  const cells = new LogCells({
    folder: dirname(path),
    name: basename(path, ".log"),
    what: "meterFolder",
    // The journal of an earlier version.
    isEarlier: (file) => file === basename(path),
    rotateBytes,
    onFailure,
  });
  return sharedMeterStore(cells, { leaseMs, refreshMs: Math.min(500, leaseMs / 10) });
}
