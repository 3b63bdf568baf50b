/**
 * Holds the keys and sends all transactions; nothing else does. Callers submit calls with an idempotency key and query
 * outcomes; they never handle a nonce, a fee or a signature.
 */
import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Logger } from "pino";
import { type Address, ConfigError, type Hex, type TrustedSigners } from "turnpike/protocol";
import { type AccountReads, createAccountReads } from "../chain/account-reads";
import type { BlockTag, CallRequest, ChainLog, ChainReader } from "../chain/chain-reader";
import { type ContractError, decodeContractError } from "../chain/contract-errors";
import { type Nodes, openNodes } from "../chain/open";
import type { FacilitatorConfig } from "../config";
import { renewEvery } from "../db/leases";
import type { Db, Store, Tx } from "../db/open";
import { repeat } from "../lib/loop";
import type { Failpoint } from "../telemetry/failpoints";
import { createFaultLog } from "../telemetry/fault-log";
import { acceptedSigners } from "./accepted-signers";
import type { FirstBroadcastListener } from "./broadcasts";
import { followFormerKeys } from "./former-keys";
import { openRefundSigners, openSigner } from "./keys";
import { createLane, type RelayerMetrics } from "./lane";
import { coins, type LaneHealth } from "./lane-state";
import { watchLanes, withReport } from "./lane-watch";
import type { DigestSigner } from "./signer";
import { enqueueTransaction, findTransaction } from "./transactions";

export type { CallRequest, ChainLog, ChainReader } from "../chain/chain-reader";
export type { ContractError } from "../chain/contract-errors";
export { intrinsicGas } from "../chain/gas";
export type { LaneHealth } from "./lane-state";
export type { DigestSigner } from "./signer";

export interface SubmitRequest {
  /** for logs and metrics, e.g. "subscribe" */
  readonly purpose: string;
  /** the same key always names the same transaction; at most 200 characters */
  readonly idempotencyKey: string;
  readonly to: Address;
  readonly data: Hex;
  readonly gasLimit: bigint;
  /** id of the transaction, when the caller's rows already name it */
  readonly id?: string;
  /** the only key that may send it; absent: any */
  readonly sender?: Address;
}

export type TxOutcome =
  | { readonly kind: "unknown" }
  | { readonly kind: "pending"; readonly hash?: Hex }
  | {
      readonly kind: "mined";
      readonly success: boolean;
      readonly hash: Hex;
      readonly blockNumber: number;
      readonly blockHash: Hex;
      readonly gasUsed: bigint;
      readonly logs: readonly ChainLog[];
    }
  /** another transaction used its nonce: it can never be mined */
  | { readonly kind: "displaced" };

export type Simulation =
  | { readonly kind: "ok"; readonly data: Hex }
  | { readonly kind: "reverted"; readonly error: ContractError };

export interface RelayerHealth {
  readonly ok: boolean;
  readonly reason?: string;
  readonly lanes: readonly LaneHealth[];
}

export interface Relayer {
  /** addresses of every lane, whichever process has its lease */
  readonly addresses: readonly Address[];
  /** @throws ConfigError when PROOF_KEY is not set */
  readonly proofSigner: DigestSigner;
  /** Signers whose proofs are accepted, the current one first. @throws ConfigError when PROOF_KEY is not set */
  readonly trustedSigners: TrustedSigners;
  /** Signs for the account of one provider's automatic refunds; undefined where REFUND_KEYS has none. */
  refundSigner(provider: Address): DigestSigner | undefined;
  readonly chain: ChainReader;
  readonly nodes: Nodes;
  /** tokens that no payer can sign for: their payments come over Permit2 alone */
  readonly permit2Only: ReadonlySet<Address>;
  readonly accounts: AccountReads;
  /**
   * Queues a transaction, within `tx` when given, so that it commits or rolls back with the caller's rows.
   * @returns its id
   */
  submit(request: SubmitRequest, tx?: Db): Promise<string>;
  /**
   * Stores transactions with new idempotency keys. Signs them at once while lanes of this process have free slots, and
   * queues the rest.
   * @returns the function that sends them, to call after the commit of `tx`
   */
  dispatch(requests: readonly (SubmitRequest & { readonly id: string })[], tx: Tx): Promise<() => void>;
  /** @throws Unavailable when the receipt of a mined transaction cannot be read */
  outcome(transactionId: string): Promise<TxOutcome>;
  /** Returns the outcome as soon as it is not pending, or the current outcome after the timeout. */
  waitFor(transactionId: string, timeoutMs: number): Promise<TxOutcome>;
  /** Runs a call without sending it, by default from the relayer's address. @throws Unavailable */
  simulate(call: CallRequest): Promise<Simulation>;
  /** Runs a read-only call. @throws Unavailable when no node answers; the contract's error when it reverts */
  read(call: { readonly to: Address; readonly data: Hex; readonly block?: BlockTag }): Promise<Hex>;
  health(): RelayerHealth;
  /**
   * Returns how many transactions of this process's keys are in no block yet; undefined when another process has the
   * lease of one.
   */
  inPool(): number | undefined;
  /** Returns whether this process sent it recently. A hint only. */
  hasSent(hash: Hex): boolean;
  /** Wakes the lanes for transactions that were queued in a transaction committed since. */
  poke(): void;
  stop(): Promise<void>;
}

export interface RelayerOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly log: Logger;
  readonly onStep: Failpoint;
  readonly metrics?: RelayerMetrics | undefined;
  readonly onFirstBroadcast?: FirstBroadcastListener;
  readonly fetch?: typeof fetch;
  readonly signal?: AbortSignal | undefined;
  /** monotonic milliseconds */
  readonly monotonicMs?: () => number;
}

/** How often a process reads the lanes of other processes. */
const WATCH_MS = 500;

/** Starts the relayer. @throws ConfigError when the chain is not the configured one or a contract is missing */
export async function startRelayer(options: RelayerOptions): Promise<Relayer> {
  const { config, store, log, metrics, onStep, onFirstBroadcast } = options;
  const { chain, nodes, permit2Only } = await openNodes(options);

  const owner = `${hostname()}:${process.pid}:${randomUUID().slice(0, 8)}`;
  const monotonicMs = options.monotonicMs ?? (() => performance.now());
  const sends = config.roles.includes("relayer");
  const signers = await Promise.all((sends ? config.relayerKeys : []).map((source) => openSigner(source, config)));
  if (sends && config.uptoSigner && !signers.some(({ address }) => address === config.uptoSigner)) {
    log.warn({ key: config.uptoSigner }, "UPTO_SIGNER is no key of RELAYER_KEYS here: another process has to run it");
  }
  const proofSigner = config.proofKey && (await openSigner(config.proofKey, config));
  const refundSigners = await openRefundSigners(config, [...signers, ...(proofSigner ? [proofSigner] : [])]);
  const trustedSigners = proofSigner && acceptedSigners(proofSigner.address, config.proofSigners);
  const parts = { config, store, chain, owner, log, metrics, monotonicMs, onStep };
  const lanes = signers.map((signer) => createLane({ ...parts, nodes, signer, onFirstBroadcast }));
  const watch = watchLanes(store, config.chainId);
  await Promise.all([...lanes.map((lane) => lane.tick()), ...(sends ? [] : [watch.refresh()])]).catch(async (error) => {
    await Promise.allSettled(lanes.map((lane) => lane.release()));
    throw error;
  });
  const faults = createFaultLog({ log, monotonicMs });
  const loops = lanes.map((lane) =>
    repeat(
      () => lane.tick(),
      () => store.notifier.wait("lane", config.pollMs),
    ),
  );
  for (const lane of lanes) {
    loops.push(repeat(lane.watchNodes, () => store.notifier.wait("lanes", WATCH_MS)));
    loops.push(renewEvery(config.laneLeaseMs, lane.renewLease));
  }
  if (sends) loops.push(followFormerKeys({ ...parts, own: signers.map(({ address }) => address) }));
  loops.push(repeat(refreshLanes, () => store.notifier.wait("lanes", WATCH_MS)));
  const addressesOf = (): readonly Address[] => (sends ? signers.map(({ address }) => address) : watch.addresses());

  async function refreshLanes(): Promise<void> {
    if (sends && lanes.every((lane) => lane.health().status !== "standby")) return;
    try {
      await watch.refresh();
      faults.recovered("lanes");
    } catch (error) {
      faults.met("lanes", error, "the lanes cannot be read");
    }
  }

  const relayer: Relayer = {
    get addresses() {
      return addressesOf();
    },
    get proofSigner() {
      if (!proofSigner) throw new ConfigError("PROOF_KEY is not set in this process");
      return proofSigner;
    },
    get trustedSigners() {
      if (!trustedSigners) throw new ConfigError("PROOF_KEY is not set in this process");
      return trustedSigners;
    },
    refundSigner: (provider) => refundSigners.get(provider),
    chain,
    nodes,
    permit2Only,
    accounts: createAccountReads(chain),
    async submit(request, tx) {
      const id = await enqueueTransaction(tx ?? store.db, { id: randomUUID(), ...request, chainId: config.chainId });
      if (!tx) store.notifier.notify("lane");
      return id;
    },
    async dispatch(requests, tx) {
      let rest = requests.map((request) => ({ ...request, chainId: config.chainId }));
      const sends: (() => void)[] = [];
      for (const lane of lanes) {
        const { count, send } = await lane.signNow(tx, rest);
        rest = rest.slice(count);
        sends.push(send);
      }
      for (const entry of rest) await enqueueTransaction(tx, entry);
      if (rest.length > 0) sends.push(() => store.notifier.notify("lane"));
      return () => {
        for (const send of sends) send();
      };
    },
    outcome: (transactionId) => outcomeOf(store.db, chain, transactionId),
    async waitFor(transactionId, timeoutMs) {
      const untilMs = monotonicMs() + timeoutMs;
      for (;;) {
        const woken = store.notifier.wait(`tx:${transactionId}`, Math.max(0, Math.min(1_000, untilMs - monotonicMs())));
        const outcome = await relayer.outcome(transactionId);
        if (outcome.kind !== "pending" || monotonicMs() >= untilMs) return outcome;
        await woken;
      }
    },
    async simulate(call) {
      const [from] = addressesOf();
      const answer = await chain.call({ ...(from && { from }), ...call });
      return answer.kind === "ok" ? answer : { kind: "reverted", error: decodeContractError(answer.data) };
    },
    async read(call) {
      const answer = await chain.call(call);
      if (answer.kind === "reverted") throw decodeContractError(answer.data).error;
      return answer.data;
    },
    health: () => healthOf(sends ? lanes.map((lane) => withReport(lane.health(), watch.health())) : watch.health()),
    inPool() {
      const counts = lanes.map((lane) => lane.inPool());
      return counts.includes(undefined) ? undefined : counts.reduce<number>((sum, count) => sum + (count ?? 0), 0);
    },
    hasSent: (hash) => lanes.some((lane) => lane.hasSent(hash)),
    poke: () => store.notifier.notify("lane"),
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()));
      // If the database is down, the lease lapses by itself.
      await Promise.all(lanes.map((lane) => lane.release()));
    },
  };
  return relayer;
}

async function outcomeOf(db: Db, chain: ChainReader, transactionId: string): Promise<TxOutcome> {
  const row = await findTransaction(db, transactionId);
  if (!row) return { kind: "unknown" };
  if (row.status === "displaced") return { kind: "displaced" };
  if (row.status !== "mined" || !row.hash) return { kind: "pending", ...(row.hash && { hash: row.hash as Hex }) };
  const receipt = await chain.receipt(row.hash as Hex);
  // The transaction was reverted a moment ago: pending, until the indexer updates the row.
  if (!receipt) return { kind: "pending", hash: row.hash as Hex };
  return { kind: "mined", ...receipt };
}

const shortage = ({ key, balanceWei = 0n }: LaneHealth): string =>
  `${key} holds ${coins(balanceWei)}, below MIN_BALANCE_WEI`;

function healthOf(lanes: readonly LaneHealth[]): RelayerHealth {
  const usable = lanes.filter((lane) => lane.status === "running" || lane.status === "standby");
  const funded = usable.filter((lane) => !lane.isBalanceLow);
  const moving = funded.filter((lane) => !lane.isStuck);
  const reason =
    usable.length === 0
      ? `no lane is running: ${lanes[0]?.reason ?? lanes[0]?.status ?? "no process has the role relayer"}`
      : funded.length === 0
        ? `every relayer key is low on gas money: ${usable.map(shortage).join(", ")}. Send native coins to it`
        : moving.length === 0
          ? `no lane gets anything mined: ${funded[0]?.reason}`
          : undefined;
  return { ok: reason === undefined, ...(reason && { reason }), lanes };
}
