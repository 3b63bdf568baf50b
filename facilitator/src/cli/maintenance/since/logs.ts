/** Reads the logs of a range of blocks that may concern stored rows, and few others. */
import type { Address } from "turnpike/protocol";
import type { ChainLog, LogFilter } from "../../../chain/chain-reader";
import {
  AUTHORIZATION_CANCELED_TOPIC,
  AUTHORIZATION_USED_TOPIC,
  TRANSFER_TOPIC,
  TURNPIKE_TOPICS,
  topicOf,
} from "../../../chain/facts";
import { PROXIES, PROXY_TOPICS } from "../../../chain/permit2-settlements";
import type { BlockRange, SinceJob } from "./job";

/** Payees that one query asks for. */
const PAYEES_AT_ONCE = 200;

type Source = Pick<SinceJob, "chain" | "config">;

export const isTransfer = ({ topics }: ChainLog): boolean => topics[0] === TRANSFER_TOPIC;

/**
 * Returns them in the chain's order. Of the token's transfers only those to `payees`: a token has many transfers that
 * are no payments.
 * @throws RpcAnswerError when the node rejects the range as too wide
 */
export function readLogs(source: Source, range: BlockRange, payees: readonly Address[]): Promise<readonly ChainLog[]> {
  const { config } = source;
  const tokens = config.tokens.map(({ address }) => address);
  const used: LogFilter = {
    addresses: [config.turnpike, ...tokens, ...(config.permit2 ? PROXIES : [])],
    topics: [[AUTHORIZATION_USED_TOPIC, AUTHORIZATION_CANCELED_TOPIC, ...PROXY_TOPICS, ...TURNPIKE_TOPICS]],
  };
  return logsOf(source, range, [used, ...transfersTo(payees, tokens)]);
}

/** Returns the tokens' transfers to `payees` in the chain's order. @throws RpcAnswerError as readLogs */
export function readTransfers(
  source: Source,
  range: BlockRange,
  payees: readonly Address[],
): Promise<readonly ChainLog[]> {
  return logsOf(
    source,
    range,
    transfersTo(
      payees,
      source.config.tokens.map(({ address }) => address),
    ),
  );
}

function transfersTo(payees: readonly Address[], tokens: readonly Address[]): LogFilter[] {
  const all = payees.map(topicOf);
  const filters: LogFilter[] = [];
  for (let start = 0; start < all.length; start += PAYEES_AT_ONCE)
    filters.push({ addresses: tokens, topics: [[TRANSFER_TOPIC], null, all.slice(start, start + PAYEES_AT_ONCE)] });
  return filters;
}

async function logsOf({ chain }: Source, { fromBlock, toBlock }: BlockRange, filters: readonly LogFilter[]) {
  const found = await Promise.all(filters.map((filter) => chain.logsBetween(fromBlock, toBlock, filter)));
  return found.flat().sort((a, b) => a.blockNumber - b.blockNumber || a.logIndex - b.logIndex);
}
