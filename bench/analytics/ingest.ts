/**
 * Measures how fast the service's writer stores blocks of payments: rows settled, events emitted, sums updated, one
 * transaction each.
 */
import { sql } from "kysely";
import pino from "pino";
import { type Address, type Hex, keccakText } from "turnpike/protocol";
import { createEventFeed, createProjections } from "../../facilitator/src/app/projections";
import type { ChainFact } from "../../facilitator/src/chain/facts";
import type { Store } from "../../facilitator/src/db/open";
import { bytesOf } from "../../facilitator/src/db/sql";
import { createBlockWriter } from "../../facilitator/src/indexer/block-writer";
import { addressOf, CHAIN_ID, START_SEC, TOKEN } from "./fill";

const PER_BLOCK = 250;
const BLOCKS = 80;
const BLOCK_SEC = 2;
const PROVIDERS = 50;
const AMOUNT = 1_000n;

const idOf = (payment: number): Hex => `0x${payment.toString(16).padStart(64, "0")}`;
const payeeOf = (payment: number) => addressOf(1 + Math.floor(PROVIDERS ** ((payment % 997) / 997))) as Address;

export async function ingest(store: Store): Promise<{ events: number; seconds: number }> {
  await accept(store);
  const log = pino({ level: "silent" });
  const projections = createProjections({ store, chainId: CHAIN_ID, log, onStep: () => undefined });
  const feed = createEventFeed(CHAIN_ID);
  const writer = createBlockWriter({ store, feed, projections, chainId: CHAIN_ID, undoDepth: 64, startBlock: 1 });
  let events = 0;
  let parentHash = keccakText("parent");
  const startedMs = performance.now();
  for (let number = 1; number <= BLOCKS; number++) {
    const hash = keccakText(`block ${number}`);
    const timestampSec = START_SEC + number * BLOCK_SEC;
    const block = { number, hash, parentHash, timestampSec } as never;
    const written = await writer.write({ chainId: CHAIN_ID, block, facts: factsOf(number), expired: [] }, "next");
    events += written?.events ?? 0;
    parentHash = hash;
  }
  return { events, seconds: (performance.now() - startedMs) / 1_000 };
}

function factsOf(block: number): ChainFact[] {
  const transaction = keccakText(`transaction ${block}`);
  return Array.from({ length: PER_BLOCK }, (_, index): ChainFact => {
    const payment = (block - 1) * PER_BLOCK + index;
    const transfer = { to: payeeOf(payment), amount: AMOUNT, logIndex: 2 * index + 1 };
    return {
      kind: "authorizationUsed",
      paymentId: idOf(payment),
      token: TOKEN as Address,
      transfer,
      logIndex: 2 * index,
      transaction,
    };
  });
}

/** The rows of payments that were sent. */
async function accept({ db }: Store): Promise<void> {
  const rows = Array.from({ length: BLOCKS * PER_BLOCK }, (_, payment) => ({
    payment_id: idOf(payment),
    pay_to: payeeOf(payment),
    payer: addressOf(1_000_000_000 + Math.floor(20_000 ** ((payment % 991) / 991))),
  }));
  await sql`insert into payments (chain_id, payment_id, door, resource_hash, resource_shown, token, payer, pay_to, amount, nonce,
      valid_after, valid_before, signature, has_code, state, is_reversed, attempts, accepted_at_ms, accepted_block)
    select ${CHAIN_ID}::bigint, payment_id, 'authorize', ${bytesOf("payment_id")}, 'https://api.example/v1', ${TOKEN}, payer, pay_to,
      ${AMOUNT.toString()}::numeric, ${bytesOf("payment_id")}, 0, ${START_SEC + 86_400}::bigint, '', false, 'sent', false, 1,
      ${START_SEC * 1_000}::bigint, 0
    from json_to_recordset(${JSON.stringify(rows)}::json) as x(payment_id text, payer text, pay_to text)`.execute(db);
  await sql`analyze payments`.execute(db);
}
