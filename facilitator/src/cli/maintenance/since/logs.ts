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
export const PAYEES_AT_ONCE = 200;

/**
 * Returns them in the chain's order. Of the token's transfers only those to `payees`: a token has many transfers that
 * are no payments.
 * @throws RpcAnswerError when the node rejects the range as too wide
 */
export async function readLogs(
  { chain, config }: Pick<SinceJob, "chain" | "config">,
  { fromBlock, toBlock }: BlockRange,
  payees: ReadonlySet<string>,
): Promise<readonly ChainLog[]> {
  const tokens = config.tokens.map(({ address }) => address);
  const used: LogFilter = {
    addresses: [config.turnpike, ...tokens, ...(config.permit2 ? PROXIES : [])],
    topics: [[AUTHORIZATION_USED_TOPIC, AUTHORIZATION_CANCELED_TOPIC, ...PROXY_TOPICS, ...TURNPIKE_TOPICS]],
  };
  const all = [...payees].map((payee) => topicOf(payee as Address));
  const filters = [used];
  for (let start = 0; start < all.length; start += PAYEES_AT_ONCE)
    filters.push({ addresses: tokens, topics: [[TRANSFER_TOPIC], null, all.slice(start, start + PAYEES_AT_ONCE)] });
  const found = await Promise.all(filters.map((filter) => chain.logsBetween(fromBlock, toBlock, filter)));
  return found.flat().sort((a, b) => a.blockNumber - b.blockNumber || a.logIndex - b.logIndex);
}
