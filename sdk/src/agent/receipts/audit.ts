/**
 * Audits what an agent was billed for metered use, and verifies the audits of others. A verification trusts nothing in the
 * file but its signatures: debits and rights are read from the chain again.
 */
import { findDeployment } from "../../chain/deployments";
import { type ChainReader, createChainReader } from "../../chain/reader";
import {
  ConfigError,
  checksum,
  configuredAddress,
  type Hex,
  InvalidRequest,
  parseUsageReceipt,
  recoverSigner,
  signatureWithV,
  type TurnpikeDeployment,
  typedDataDigest,
  Unavailable,
  type UsageReceipt,
  usageReceiptTypedData,
} from "../../protocol";
import type { AgentContext } from "../core/context";
import type { SubscriptionEntry } from "../ledger/ledger-store";
import { differencesOf, type FileSubscription, fileOf, textOf } from "./audit-file";
import { type AuditedSubscription, type Finding, type HeldReceipt, judgeBill } from "./bill";
import { isInHistory, readBill, recordsOf } from "./billed";
import type { BillSource } from "./refunded";

/** What to audit. */
export interface AuditOptions {
  /** the public name of one subscription; default: every one of the ledger */
  readonly idHash?: Hex;
  /** the first block that is read, before the first signup; default 0 */
  readonly fromBlock?: number;
}

/** The result of an audit. */
export interface Audit {
  /** nothing was found: every debit is covered by receipts without a gap */
  readonly isClean: boolean;
  readonly subscriptions: readonly AuditedSubscription[];
  /** the file that others verify: {@link verifyAudit} */
  readonly text: string;
}

/** @see Agent.audit */
export async function audit(context: AgentContext, options: AuditOptions = {}): Promise<Audit> {
  const entries = await entriesOf(context, options.idHash);
  const subscriptions: AuditedSubscription[] = [];
  const done = new Set<Hex>();
  for (const entry of entries) {
    if (done.has(entry.id)) continue;
    const audited = await auditOne(context, entry, options.fromBlock ?? 0);
    if (audited === undefined) continue;
    for (const idHash of audited.idHashes) done.add(idHash);
    subscriptions.push(audited);
  }
  return auditOf(subscriptions);
}

function auditOf(subscriptions: readonly AuditedSubscription[]): Audit {
  return {
    isClean: subscriptions.every(({ findings }) => findings.length === 0),
    subscriptions,
    text: textOf(subscriptions),
  };
}

async function entriesOf(context: AgentContext, idHash: Hex | undefined): Promise<readonly SubscriptionEntry[]> {
  const ledger = await context.ledger();
  const made = ledger.subscriptions().filter(({ state }) => state !== "signup");
  if (idHash === undefined) return made;
  const entry = made.find(({ id }) => id === idHash.toLowerCase());
  if (entry) return [entry];
  throw new InvalidRequest(`audit: idHash ${idHash} names no subscription of this ledger`);
}

/** @returns undefined for a signup that never reached the chain */
async function auditOne(
  context: AgentContext,
  entry: SubscriptionEntry,
  fromBlock: number,
): Promise<AuditedSubscription | undefined> {
  const { chainId, turnpike, id } = entry;
  const chain = context.chainOf(chainId);
  if (!chain) throw new ConfigError(`audit needs the agent's own RPC of chain ${chainId}: set rpc, or name an idHash`);
  const deployment = { chainId, turnpike };
  const known = { chain, deployment, fromBlock, toBlock: await chain.blockNumber() };
  if (entry.state === "ended" && !(await isInHistory(known, id))) return undefined;
  const idHashes = await recordsOf(known, id);
  const kept = (
    await Promise.all(idHashes.map((idHash) => context.receipts.list({ chainId, turnpike, idHash })))
  ).flat();
  const findings: Finding[] = [];
  const signed: SignedReceipt[] = [];
  for (const { text, fault, idHash } of kept) {
    const parsed = parseUsageReceipt(text);
    if (fault !== undefined || !parsed) findings.push({ kind: "foreign", idHash, reason: fault ?? "malformed" });
    else signed.push(parsed);
  }
  const receipts = await heldReceipts(deployment, signed);
  // A head that is later than the receipts has the cycle of each, and one that is later than the state has each debit.
  const state = await chain.subscription(turnpike, idHashes.at(-1) ?? id);
  const debitsAtLeast = state?.allowance.debits ?? 0;
  const judged = await judge({ ...known, debitsAtLeast, toBlock: await chain.blockNumber() }, id, receipts);
  return { ...judged, findings: [...findings, ...judged.findings] };
}

type SignedReceipt = Pick<HeldReceipt, "receipt" | "signature">;

/** Receipts whose signers are recovered before other work of the process has a turn: about 50 ms. */
const RECOVERED_AT_ONCE = 50;

/** Recovers who signed receipts, and lets connections live meanwhile: thousands take as long as servers keep one open. */
async function heldReceipts(
  deployment: TurnpikeDeployment,
  signed: readonly SignedReceipt[],
): Promise<readonly HeldReceipt[]> {
  const held: HeldReceipt[] = [];
  for (const { receipt, signature } of signed) {
    const digest = typedDataDigest(usageReceiptTypedData(deployment, receipt));
    const signer = recoverSigner(digest, signatureWithV(signature));
    held.push({ receipt, signature, signer });
    if (held.length % RECOVERED_AT_ONCE === 0) await new Promise((resolve) => setTimeout(resolve));
  }
  return held;
}

async function judge(source: BillSource, idHash: Hex, receipts: readonly HeldReceipt[]): Promise<AuditedSubscription> {
  const { deployment, fromBlock, toBlock } = source;
  const signers = receipts.flatMap(({ receipt: { planId }, signer }) => (signer ? [[planId, signer] as const] : []));
  const { idHashes, debits, maySign } = await readBill(source, idHash, signers);
  const { cycles, findings } = judgeBill({ idHashes, debits, receipts, maySign });
  const { chainId, turnpike } = deployment;
  return { chainId, turnpike, idHashes, fromBlock, toBlock, cycles, findings, receipts };
}

/** How an audit is verified. */
export interface VerifyAuditOptions {
  /** a JSON-RPC of the audit's chain */
  readonly rpc: string;
  /** the contract that the file must name; default: the one that is known on its chain, else it is required */
  readonly turnpike?: string;
  /** used for the RPC; default the global fetch */
  readonly fetch?: typeof fetch;
  /** how long the RPC may take to answer, milliseconds; default 30,000 */
  readonly timeoutMs?: number;
}

/** What a verification came to. */
export interface VerifiedAudit extends Audit {
  /**
   * what is the file's writer's word alone, and not among the `findings`: foreign receipts, whose requests only the
   * writer knows, and forged ones, which anybody can write
   */
  readonly unproven: readonly Finding[];
  /** what the file says differently from the chain and its own receipts; empty for a truthful file */
  readonly differences: readonly string[];
}

/**
 * Verifies the text of an audit with nothing but the chain: signatures, the signers' rights, and the debits.
 * @throws InvalidRequest for a text that is no audit, or one that begins after the signup; ConfigError for one of another
 * contract; Unavailable
 */
export async function verifyAudit(text: string, options: VerifyAuditOptions): Promise<VerifiedAudit> {
  const file = fileOf(text);
  const subscriptions: AuditedSubscription[] = [];
  const differences: string[] = [];
  const unproven: Finding[] = [];
  for (const claimed of file.subscriptions) {
    const chain = chainOf(claimed.chainId, options);
    requireContract(claimed, options.turnpike);
    const judged = await judgeClaimed(chain, claimed);
    const findings = judged.findings.filter(isProvenByFile);
    subscriptions.push({ ...judged, findings });
    differences.push(...differencesOf(claimed, judged));
    unproven.push(...judged.findings.filter((finding) => !isProvenByFile(finding)));
    unproven.push(...claimed.findings.filter(({ kind }) => kind === "foreign"));
  }
  return { ...auditOf(subscriptions), unproven, differences };
}

/** Returns whether the provider has to answer for it: the file's writer could have made up any other receipt. */
const isProvenByFile = ({ kind }: Finding): boolean => kind !== "forged" && kind !== "foreign";

function chainOf(chainId: number, { rpc, fetch: send = fetch, timeoutMs = 30_000 }: VerifyAuditOptions): ChainReader {
  const { signal } = new AbortController();
  return createChainReader({ url: rpc, chainId, fetch: (input, init) => send(input, init), signal, timeoutMs });
}

function requireContract({ chainId, turnpike }: FileSubscription, named: string | undefined): void {
  const wanted =
    named === undefined
      ? findDeployment(chainId)?.turnpike
      : configuredAddress(named, "turnpike", `turnpike is "${named}": not an address`);
  if (wanted === undefined) {
    // The file's writer could have deployed a contract that emits any debit.
    throw new ConfigError(
      `turnpike is not set, and no deployment on chain ${chainId} is known: name the contract that you expect. The file's is ${turnpike}.`,
    );
  }
  if (checksum(wanted) === turnpike) return;
  throw new ConfigError(`The audit is of the contract ${turnpike} on chain ${chainId}, which is not ${wanted}.`);
}

async function judgeClaimed(chain: ChainReader, claimed: FileSubscription): Promise<AuditedSubscription> {
  const { chainId, turnpike, fromBlock, toBlock, idHashes, receipts } = claimed;
  const head = await chain.blockNumber();
  if (head < toBlock)
    throw new Unavailable(`The RPC's head is block ${head}, and the audit's last block is ${toBlock}.`);
  const deployment = { chainId, turnpike };
  const source = { chain, deployment, fromBlock, toBlock };
  const held = await heldReceipts(
    deployment,
    receipts.map((one) => ({ ...one, receipt: one.receipt as UsageReceipt })),
  );
  return judge(source, idHashes.at(-1) as Hex, held);
}
