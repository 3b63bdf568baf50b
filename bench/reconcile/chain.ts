/** What a node answers about the blocks and the token's logs of the bench's payments. */
import { AUTHORIZATION_USED_TOPIC, TRANSFER_TOPIC, topicOf } from "../../facilitator/src/chain/facts";
import {
  AMOUNT,
  BLOCK_SEC,
  blockHash,
  CHAIN_ID,
  PAYMENTS_IN_A_BLOCK,
  paymentOf,
  START_SEC,
  TOKEN,
  transactionOf,
} from "./payments";

const hex = (value: number): string => `0x${value.toString(16)}`;

const DATA = `0x${AMOUNT.toString(16).padStart(64, "0")}`;

const blockOf = (number: number) => ({
  number: hex(number),
  hash: blockHash(number),
  parentHash: blockHash(number - 1),
  timestamp: hex(START_SEC + number * BLOCK_SEC),
  baseFeePerGas: "0x1",
  transactions: [transactionOf(number)],
});

interface Filter {
  readonly fromBlock: string;
  readonly toBlock: string;
  readonly topics: readonly (readonly string[] | null)[];
}

function logsOf({ fromBlock, toBlock, topics }: Filter, firstBlock: number): unknown[] {
  const [kinds = [], , payees] = topics;
  const logs: unknown[] = [];
  for (let block = Math.max(firstBlock, Number(fromBlock)); block <= Number(toBlock); block++) {
    const place = { blockNumber: hex(block), blockHash: blockHash(block), transactionHash: transactionOf(block) };
    for (let index = 0; index < PAYMENTS_IN_A_BLOCK; index++) {
      const { payer, payTo, nonce, logIndex } = paymentOf(block, index);
      const log = (at: number, topicsOf: readonly string[], data: string): void =>
        void logs.push({ address: TOKEN.toLowerCase(), topics: topicsOf, data, logIndex: hex(at), ...place });
      if (kinds?.includes(AUTHORIZATION_USED_TOPIC))
        log(logIndex - 1, [AUTHORIZATION_USED_TOPIC, topicOf(payer), nonce], "0x");
      if (kinds?.includes(TRANSFER_TOPIC) && payees?.includes(topicOf(payTo)))
        log(logIndex, [TRANSFER_TOPIC, topicOf(payer), topicOf(payTo)], DATA);
    }
  }
  return logs;
}

/** @param firstBlock the first with payments */
export function answer(method: string, [param]: readonly unknown[], firstBlock = 0): unknown {
  if (method === "eth_chainId") return hex(CHAIN_ID);
  if (method === "eth_getBlockByNumber") return blockOf(Number(param));
  if (method === "eth_getLogs") return logsOf(param as Filter, firstBlock);
  throw new TypeError(`the bench's node has no ${method}`);
}
