/** Finds a provider's records by what names them. Each statement is a lookup in an index: none reads a table. */
import { type RawBuilder, sql } from "kysely";
import type { SearchWire } from "turnpike/facilitator";
import { type Address, addressSchema, hash32Schema } from "turnpike/protocol";
import { bytes, textList } from "../db/sql";
import { CHARGE_TYPES } from "./charges";
import type { AnalyticsOptions } from "./ranges";

type Hit = SearchWire["hits"][number];

export interface Search {
  search(provider: Address, text: string): Promise<readonly Hit[]>;
}

const MAX_HITS = 20;

/** The expression of the index `plans_named`. */
const PLAN_NAME = sql`lower(left(substring(left(metadata, 2048) from '"name"\\s*:\\s*"((?:[^"\\\\]|\\\\.)*)"'), 80))`;

/** Sorts behind every letter: ends the range of texts with one start. */
const LAST = "\u{10ffff}";

interface Found {
  readonly kind: Hit["kind"];
  readonly id: string;
  readonly text: string | null;
  readonly amount: string | null;
  readonly token: string | null;
  readonly page: string;
}

interface Wanted {
  readonly chainId: number;
  readonly provider: Address;
  readonly tokens: readonly string[];
}

/** Returns the lookups that a text calls for. */
export function lookupsOf(wanted: Wanted, text: string): RawBuilder<Found>[] {
  const hash = hash32Schema.safeParse(text.toLowerCase()).data;
  const account = addressSchema.safeParse(text).data;
  const ofHash = hash === undefined ? [] : hashLookups(wanted, hash);
  const ofAccount = account === undefined ? [] : [payerLookup(wanted, account)];
  const isName = hash === undefined && account === undefined;
  const [, start, end = ""] = (isName && PART.exec(text.toLowerCase())) || [];
  const ofPart = start === undefined ? [] : partLookups(wanted, start, end);
  return [...ofHash, ...ofAccount, ...ofPart, memoLookup(wanted, text), ...(isName ? [nameLookup(wanted, text)] : [])];
}

/** A hash or an address by its first six digits or more, and perhaps its last, as the pages shorten it. */
const PART = /^(?:0x)?([0-9a-f]{6,63})(?:(?:…|\.{3})([0-9a-f]{1,8}))?$/;

/** Six digits are shared by one record in 16 million. */
function partLookups({ chainId, provider }: Wanted, start: string, end: string): RawBuilder<Found>[] {
  const isPart = (id: RawBuilder<unknown>) =>
    sql`${id} >= ${`0x${start}`}::text and ${id} < ${`0x${start}g`}::text and ${id} like ${`%${end}`}::text`;
  const [first, last] = ["0", "f"].map((digit) => bytes(`0x${start.padEnd(64, digit)}`));
  const ofPayments = sql`p.chain_id = ${chainId}::bigint and p.pay_to = ${provider} and p.door <> 'refund'`;
  return [
    sql`select ${paymentColumns} from payments p where ${ofPayments} and ${isPart(sql`p.payment_id`)} limit ${MAX_HITS}`,
    sql`select ${paymentColumns} from payments p where ${ofPayments} and p.tx_hash between ${first} and ${last}
      and encode(p.tx_hash, 'hex') like ${`%${end}`} limit ${MAX_HITS}`,
    sql`select ${chargeColumns} from events e where e.chain_id = ${chainId}::bigint and e.provider = ${provider}
      and e.type in (${CHARGE_TYPES}) and not e.reverted and ${isPart(sql`e.transaction`)} limit ${MAX_HITS}`,
    sql`select 'subscription' as kind, s.id_hash as id, p.metadata as text, null as amount, null as token,
      '/subscriptions/' || s.id_hash as page
      from subscriptions s join plans p on p.chain_id = s.chain_id and p.plan_id = s.plan_id and p.provider = ${provider}
      where s.chain_id = ${chainId}::bigint and ${isPart(sql`s.id_hash`)} limit ${MAX_HITS}`,
    sql`select ${planColumns} from plans where chain_id = ${chainId}::bigint and provider = ${provider}
      and ${isPart(sql`plan_id`)} limit ${MAX_HITS}`,
    sql`select distinct 'payer' as kind, payer as id, null as text, null as amount, null as token,
      '/payers/' || payer as page
      from rollup_payers where chain_id = ${chainId}::bigint and provider = ${provider} and ${isPart(sql`lower(payer)`)}
      limit ${MAX_HITS}`,
  ];
}

const paymentColumns = sql`'payment' as kind, p.payment_id as id, p.resource_shown as text, p.amount::text as amount,
  p.token, '/payments/' || p.payment_id as page`;

const chargeColumns = sql`'charge' as kind, e.id, e.type as text,
  coalesce(e.payload->>'charged', e.payload->>'amount') as amount, e.payload->>'token' as token, '/charges/' || e.id as page`;

const planColumns = sql`'plan' as kind, plan_id as id, metadata as text, amount::text, token, '/plans/' || plan_id as page`;

function hashLookups({ chainId, provider }: Wanted, hash: string): RawBuilder<Found>[] {
  return [
    sql`select ${paymentColumns} from payments p where p.chain_id = ${chainId}::bigint and p.payment_id = ${hash}
      and p.pay_to = ${provider} and p.door <> 'refund'`,
    sql`select ${paymentColumns} from payments p where p.tx_hash = ${bytes(hash)} and p.chain_id = ${chainId}::bigint
      and p.pay_to = ${provider} and p.door <> 'refund' limit ${MAX_HITS}`,
    sql`select 'refund' as kind, p.payment_id as id, d.kind as text, p.amount::text as amount, p.token,
      case when d.kind = 'payment' then '/payments/' || d.refunded_id else '/subscriptions/' || d.id_hash end as page
      from payments p join refunds r on r.chain_id = p.chain_id and r.payment_id = p.payment_id
      join refunded d on d.chain_id = r.chain_id and d.refunded_id = r.refunded_id and d.provider = ${provider}
      where p.chain_id = ${chainId}::bigint and p.door = 'refund'
        and (p.payment_id = ${hash} or p.tx_hash = ${bytes(hash)}) limit ${MAX_HITS}`,
    sql`select ${chargeColumns} from events e where e.chain_id = ${chainId}::bigint and e.id = ${hash}
      and e.provider = ${provider} and e.type in (${CHARGE_TYPES})`,
    sql`select ${chargeColumns} from events e where e.transaction = ${hash} and e.type in (${CHARGE_TYPES})
      and e.chain_id = ${chainId}::bigint and e.provider = ${provider} and not e.reverted limit ${MAX_HITS}`,
    sql`select 'subscription' as kind, s.id_hash as id, p.metadata as text, null as amount, null as token,
      '/subscriptions/' || s.id_hash as page
      from subscriptions s join plans p on p.chain_id = s.chain_id and p.plan_id = s.plan_id and p.provider = ${provider}
      where s.chain_id = ${chainId}::bigint and s.id_hash = ${hash}`,
    sql`select ${planColumns} from plans where chain_id = ${chainId}::bigint and plan_id = ${hash} and provider = ${provider}`,
  ];
}

/** Who paid, or has a payment that is under way. */
const payerLookup = ({ chainId, provider, tokens }: Wanted, payer: Address): RawBuilder<Found> =>
  sql`select 'payer' as kind, ${payer}::text as id, null as text, null as amount, null as token,
      '/payers/' || ${payer}::text as page
    where exists (select from rollup_payers where chain_id = ${chainId}::bigint and provider = ${provider}
        and token = any(${textList(tokens)}) and payer = ${payer})
      or exists (select from payments where chain_id = ${chainId}::bigint and pay_to = ${provider} and payer = ${payer}
        and hashtextextended(pay_to || payer, 0) = hashtextextended(${provider}::text || ${payer}::text, 0)
        and state in ('settled', 'failed'))
      or exists (select from payments where chain_id = ${chainId}::bigint and token = any(${textList(tokens)})
        and payer = ${payer} and pay_to = ${provider} and state in ('queued', 'sent'))`;

const memoLookup = ({ chainId, provider }: Wanted, memo: string): RawBuilder<Found> =>
  sql`select ${paymentColumns} from payments p
    where hashtextextended(p.memo, 0) = hashtextextended(${memo}::text, 0) and p.memo = ${memo}
      and p.chain_id = ${chainId}::bigint and p.pay_to = ${provider} and p.door <> 'refund' limit ${MAX_HITS}`;

function nameLookup({ chainId, provider }: Wanted, start: string): RawBuilder<Found> {
  const from = start.toLowerCase();
  return sql`select ${planColumns} from plans where chain_id = ${chainId}::bigint and provider = ${provider}
      and ${PLAN_NAME} ~>=~ ${from} and ${PLAN_NAME} ~<~ ${`${from}${LAST}`}
    order by ${PLAN_NAME} using ~<~ limit ${MAX_HITS}`;
}

export const createSearch = ({ db, config: { chainId, tokens } }: AnalyticsOptions): Search => ({
  async search(provider, text) {
    const lookups = lookupsOf({ chainId, provider, tokens: tokens.map(({ address }) => address) }, text);
    const found = await Promise.all(lookups.map((lookup) => lookup.execute(db)));
    const hits = new Map(found.flatMap(({ rows }) => rows).map((row) => [`${row.kind} ${row.id}`, row]));
    return [...hits.values()].slice(0, MAX_HITS).map(({ text: said, amount, token, ...hit }) => ({
      ...hit,
      ...(said !== null && { text: said }),
      ...(amount !== null && { amount }),
      ...(token !== null && { token }),
    }));
  },
});
