/**
 * Finds the proxy's call that moved one payment over Permit2, among the token's transfers from the payer to the payee.
 * Searches blocks after the payment was accepted: what was settled before has bought something else.
 */
import { decodeProxyCall } from "turnpike/chain";
import type { Address } from "turnpike/protocol";
import type { ChainReader } from "../chain/chain-reader";
import { TRANSFER_TOPIC, topicOf } from "../chain/facts";
import { newestLogs } from "../chain/log-search";
import { isTransfer } from "../chain/permit2-settlements";
import { requireSameLogs } from "../chain/same-logs";
import type { PaymentRow } from "../db/tables/payments";
import type { Evidence } from "./evidence";

type SearchedPayment = Pick<PaymentRow, "token" | "payer" | "pay_to" | "amount" | "nonce" | "accepted_block">;

/** @throws Unavailable when the chain cannot be read */
export async function findPermit2Evidence(
  chain: ChainReader,
  payment: SearchedPayment,
  upToBlock: number,
): Promise<Extract<Evidence, { kind: "transfer" | "none" }>> {
  const terms = {
    token: payment.token as Address,
    payer: payment.payer as Address,
    payTo: payment.pay_to as Address,
    amount: BigInt(payment.amount),
  };
  const range = { fromBlock: payment.accepted_block + 1, toBlock: upToBlock };
  const topics = [TRANSFER_TOPIC, topicOf(terms.payer), topicOf(terms.payTo)];
  for await (const log of newestLogs(chain, range, { addresses: [terms.token], topics })) {
    if (!isTransfer(log, terms)) continue;
    const transaction = await chain.transaction(log.transaction);
    const call = transaction?.call && decodeProxyCall(transaction.call);
    if (call?.nonce !== payment.nonce || call.payer !== terms.payer || call.token !== terms.token) continue;
    const block = await chain.block(log.blockNumber);
    if (!block || block.hash !== log.blockHash) continue;
    await requireSameLogs(chain, log.transaction, { block, logs: [log] });
    return {
      kind: "transfer",
      to: call.payTo,
      amount: call.amount,
      transaction: log.transaction,
      blockNumber: block.number,
      blockHash: block.hash,
      blockTimeSec: block.timestampSec,
      logIndex: log.logIndex,
    };
  }
  return { kind: "none" };
}
