import type { Logger } from "pino";
import { type ChainReader, createChainReader } from "../../chain/chain-reader";
import { checkContracts, type Finding, isTurnpikeAt } from "../../chain/contract-checks";
import { createRpc } from "../../chain/rpc";
import type { FacilitatorConfig } from "../../config";

/** The block span that catching up requests at once. @see startIndexer */
const SPAN_BLOCKS = 500;

const BATCH_CALLS = 50;

const SKEW_WARN_SEC = 60;

const SKEW_FAIL_SEC = 900;

export interface ChainDoctor {
  readonly config: FacilitatorConfig;
  readonly log: Logger;
  /** unix milliseconds of this machine */
  nowMs(): number;
}

export async function examineChain(options: ChainDoctor): Promise<Finding[]> {
  const { config } = options;
  const findings: Finding[] = [];
  let sound: ChainReader | undefined;
  for (const [index, url] of config.rpcUrls.entries()) {
    const node = await examineNode(options, `RPC ${index + 1} (${new URL(url).host})`, url);
    findings.push(...node.findings);
    sound ??= node.chain;
  }
  findings.push(...nodeListFindings(config));
  if (sound) findings.push(...(await checkContracts(sound, config)), ...(await examineStart(sound, config)));
  return findings;
}

/** Finds a START_BLOCK that the chain has not reached, or that is after the contract's deployment. */
async function examineStart(chain: ChainReader, config: FacilitatorConfig): Promise<Finding[]> {
  const { startBlock, turnpike } = config;
  const subject = "START_BLOCK";
  const remedy = "set START_BLOCK to the block of the deployment";
  const { number: newest } = await chain.head();
  if (startBlock > newest) {
    const detail = `${startBlock} is after the newest block ${newest}: nothing is read, and no payment settles`;
    return [{ level: "fail", subject, detail, remedy }];
  }
  if (startBlock === 0 || !(await isTurnpikeAt(chain, turnpike, startBlock - 1).catch(() => false))) return [];
  const detail = `TURNPIKE was deployed before block ${startBlock}: earlier plans and subscriptions may be missing`;
  return [{ level: "warn", subject, detail, remedy: `${remedy}; if the chain was read already, run reindex --wipe` }];
}

/** Says where the list of nodes gives less of a fallback than it looks like. URLs may hold keys: they are not shown. */
function nodeListFindings({ rpcUrls, network }: FacilitatorConfig): Finding[] {
  const hrefs = rpcUrls.map((url) => new URL(url).href);
  const findings = hrefs.flatMap((href, place): Finding[] => {
    const first = hrefs.indexOf(href);
    if (first === place) return [];
    const detail = `RPC ${place + 1} (${new URL(href).host}) is the same URL as RPC ${first + 1}, and no fallback for it`;
    return [
      { level: "warn", subject: "RPC_URLS", detail, remedy: "name an independent node in its place, or remove it" },
    ];
  });
  if (new Set(hrefs).size > 1 || network.name.startsWith("local-")) return findings;
  const remedy = "add a second, independent URL to RPC_URLS";
  const detail = "only one node is configured; there is no fallback";
  return [...findings, { level: "warn", subject: "RPC_URLS", detail, remedy }];
}

interface Examined {
  readonly findings: Finding[];
  readonly chain?: ChainReader;
}

async function examineNode({ config, log, nowMs }: ChainDoctor, subject: string, url: string): Promise<Examined> {
  const rpc = createRpc({ urls: [url], chainId: config.chainId, timeoutMs: config.rpcTimeoutMs, log });
  const chain = createChainReader(rpc);
  try {
    await rpc.checkChain();
  } catch (error) {
    const detail = error instanceof Error ? error.message : "it does not answer";
    return {
      findings: [{ level: "fail", subject, detail, remedy: "correct RPC_URLS or CHAIN_ID, or start the node" }],
    };
  }
  const findings: Finding[] = [{ level: "ok", subject, detail: `serves chain ${config.chainId}` }];
  const head = await chain.head();
  const skewSec = Math.round(nowMs() / 1_000) - head.timestampSec;
  findings.push(clockFinding(config, subject, head.number, skewSec));
  findings.push(await logsFinding(chain, config, subject, head.number));
  findings.push(await batchFinding(chain, subject, head.number));
  return { findings, chain };
}

function clockFinding(config: FacilitatorConfig, subject: string, head: number, skewSec: number): Finding {
  const detail = `newest block ${head} is ${Math.abs(skewSec)} s ${skewSec < 0 ? "ahead of" : "behind"} this machine's clock`;
  const size = Math.abs(skewSec);
  if (size <= SKEW_WARN_SEC) return { level: "ok", subject, detail };
  // The clock of a private chain may be moved.
  const level = size > SKEW_FAIL_SEC && !config.network.name.startsWith("local-") ? "fail" : "warn";
  return { level, subject, detail, remedy: "check that the node is synced and that NTP sets this machine's clock" };
}

async function logsFinding(
  chain: ChainReader,
  config: FacilitatorConfig,
  subject: string,
  head: number,
): Promise<Finding> {
  const from = Math.max(0, head - SPAN_BLOCKS + 1);
  try {
    await chain.logsBetween(from, head, { addresses: [config.turnpike] });
    return { level: "ok", subject, detail: `returns the logs of ${head - from + 1} blocks in one request` };
  } catch {
    // The contents of the response do not matter here.
    const remedy = "catching up takes one request for each block; use a node with a wider limit for reindex";
    return {
      level: "warn",
      subject,
      detail: `does not return the logs of ${SPAN_BLOCKS} blocks in one request`,
      remedy,
    };
  }
}

async function batchFinding(chain: ChainReader, subject: string, head: number): Promise<Finding> {
  const numbers = Array.from({ length: BATCH_CALLS }, (_, index) => Math.max(0, head - index));
  try {
    await Promise.all(numbers.map((number) => chain.block(number)));
    return { level: "ok", subject, detail: `answers ${BATCH_CALLS} calls in one batch` };
  } catch {
    // As above.
    const remedy = "use a node that supports JSON-RPC batches; every request is slower without";
    return { level: "fail", subject, detail: `does not answer ${BATCH_CALLS} calls in one batch`, remedy };
  }
}
