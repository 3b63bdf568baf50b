/** Writes the rows that the Facilitator has of the bench's payments. */
import { sql } from "kysely";
import type { Store } from "../../facilitator/src/db/open";
import {
  AMOUNT,
  BLOCK_SEC,
  blockHash,
  CHAIN_ID,
  idOf,
  PAYMENTS_IN_A_BLOCK,
  paymentOf,
  START_SEC,
  TOKEN,
  transactionOf,
} from "./payments";

const BLOCKS_AT_ONCE = 200;

const SIGNATURE = "5a".repeat(65);

/** One block more than payments have, so that all of theirs are final. @param firstBlock the first with payments */
export async function fillDatabase(store: Store, blocks: number, firstBlock = 0): Promise<void> {
  const end = firstBlock + blocks;
  for (let first = firstBlock; first < end; first += BLOCKS_AT_ONCE) {
    const numbers = Array.from({ length: Math.min(BLOCKS_AT_ONCE, end - first) }, (_, place) => first + place);
    await insertPayments(store, JSON.stringify(numbers.flatMap(rowsOf)));
  }
  for (const number of [end - 1, end]) {
    const block = { number, hash: blockHash(number), parent_hash: blockHash(number - 1) };
    await store.db
      .insertInto("blocks")
      .values({ chain_id: CHAIN_ID, ...block, timestamp: START_SEC + number * BLOCK_SEC })
      .execute();
  }
  await sql`vacuum analyze payments, events`.execute(store.db);
}

function rowsOf(block: number) {
  return Array.from({ length: PAYMENTS_IN_A_BLOCK }, (_, index) => {
    const payment = paymentOf(block, index);
    return {
      id: idOf(payment),
      payer: payment.payer,
      pay_to: payment.payTo,
      nonce: payment.nonce.slice(2),
      block,
      hash: blockHash(block).slice(2),
      tx: transactionOf(block).slice(2),
      log_index: payment.logIndex,
    };
  });
}

async function insertPayments(store: Store, rows: string): Promise<void> {
  const given = sql`json_to_recordset(${rows}::json) as p(id text, payer text, pay_to text, nonce text, block bigint,
    hash text, tx text, log_index bigint)`;
  const atSec = sql`${START_SEC}::bigint + p.block * ${BLOCK_SEC}::bigint`;
  await sql`insert into payments (chain_id, payment_id, door, resource_hash, resource_shown, token, payer, pay_to, amount,
      nonce, valid_after, valid_before, signature, has_code, state, attempts, accepted_at_ms, accepted_block, tx_hash,
      block_number, block_hash, block_time, log_index)
    select ${CHAIN_ID}::bigint, p.id, 'settle', decode(p.nonce, 'hex'), 'https://api.example/quote', ${TOKEN}, p.payer,
      p.pay_to, ${AMOUNT.toString()}::numeric, decode(p.nonce, 'hex'), 0, 0, decode(${SIGNATURE}, 'hex'), false, 'settled',
      1, (${atSec}) * 1000, p.block, decode(p.tx, 'hex'), p.block, decode(p.hash, 'hex'), ${atSec}, p.log_index
    from ${given}`.execute(store.db);
  await sql`insert into events (id, chain_id, type, object_id, sequence, provider, payer, payload, block_number, block_hash,
      log_index, block_time, transaction)
    select p.id, ${CHAIN_ID}::bigint, 'payment.settled', p.id, 1, p.pay_to, p.payer, '{}', p.block, '0x' || p.hash,
      p.log_index, ${atSec}, '0x' || p.tx
    from ${given}`.execute(store.db);
}
