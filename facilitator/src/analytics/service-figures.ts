import { type RawBuilder, sql } from "kysely";
import type { OverviewWire, ProviderFiguresWire, ServiceCostsWire } from "turnpike/facilitator";
import type { Address } from "turnpike/protocol";
import type { Db } from "../db/open";
import { DAY_SEC } from "../lib/durations";
import { centsOf } from "./costs";
import type { Sum } from "./queries";
import { type AnalyticsOptions, createRanges, type FiguresQuery, type Range, type Scope } from "./ranges";

export interface ServiceFigures {
  /** @param query `limit` undefined: all of them */
  providers(query: FiguresQuery & { readonly limit: number | undefined }): Promise<ProviderFiguresWire>;
  countProviders(query: FiguresQuery): Promise<number>;
  costs(query: FiguresQuery): Promise<ServiceCostsWire>;
}

interface Cost {
  readonly at: number;
  readonly purpose: string;
  readonly transactions: number;
  readonly failed: number;
  readonly items: number;
  readonly gas: bigint;
  readonly wei: bigint;
}

export function createServiceFigures({ db, config, clock }: AnalyticsOptions): ServiceFigures {
  const { chainId, nativePrice } = config;
  const { scopeOf, rangeOf } = createRanges({ config, clock });
  return {
    async providers({ limit, ...query }) {
      const { scope, unit } = scopeOf("everyone", query.token);
      const range = rangeOf(query, DAY_SEC);
      const rows = await volumeByProvider(db, scope, range, limit);
      return {
        ...unit,
        from: range.fromSec,
        to: range.toSec,
        providers: rows.map(({ provider, count, amount }) => ({
          provider: provider as Address,
          count,
          amount: amount.toString(),
        })),
      };
    },

    async countProviders(query) {
      const { scope } = scopeOf("everyone", query.token);
      const { fromSec, toSec } = rangeOf(query, DAY_SEC);
      const { rows } = await sql<{ count: number }>`
        select count(*)::int8 as count from (select 1 from (${paidIn(scope, { fromSec, toSec })}) s
          where count > 0 group by provider) paid`.execute(db);
      return rows[0]?.count ?? 0;
    },

    async costs(query) {
      const { fromSec, toSec } = rangeOf(query, DAY_SEC);
      const days = await costsIn(db, chainId, { fromSec, toSec });
      const purposes = new Map<string, Cost>();
      for (const day of days) purposes.set(day.purpose, added(purposes.get(day.purpose), day));
      return {
        from: fromSec,
        to: toSec,
        ...(nativePrice !== undefined && { nativePrice }),
        purposes: [...purposes.values()]
          .sort((a, b) => (a.wei === b.wei ? 0 : a.wei < b.wei ? 1 : -1))
          .map((cost) => ({ ...costToWire(cost, nativePrice), failed: cost.failed, ...perItem(cost) })),
        points: days.map((cost) => ({ at: cost.at, ...costToWire(cost, nativePrice) })),
      };
    },
  };
}

/**
 * Averages over the service's final transactions that moved money. Returns only what the chain shows anyone, without
 * counts.
 */
export async function settlementCostIn(
  db: Db,
  chainId: number,
  range: Range,
  nativePrice: number | undefined,
): Promise<OverviewWire["settlementCost"]> {
  const days = (await costsIn(db, chainId, range)).filter(({ items }) => items > 0);
  const cost = days.reduce<Cost | undefined>(added, undefined);
  if (!cost || cost.items === 0) return undefined;
  const { centsPerItem } = costToWire(cost, nativePrice);
  const items = BigInt(cost.items);
  return {
    gasPerPayment: Number(cost.gas / items),
    weiPerPayment: (cost.wei / items).toString(),
    ...(centsPerItem !== undefined && { centsPerPayment: centsPerItem }),
  };
}

async function costsIn(db: Db, chainId: number, { fromSec, toSec }: Range): Promise<Cost[]> {
  const rows = await db
    .selectFrom("rollup_costs")
    .selectAll()
    .where("chain_id", "=", chainId)
    .where("bucket", ">=", fromSec)
    .where("bucket", "<", toSec)
    .orderBy("bucket")
    .orderBy("purpose")
    .execute();
  return rows.map(({ bucket, gas, wei, ...row }) => ({ ...row, at: bucket, gas: BigInt(gas), wei: BigInt(wei) }));
}

function added(sum: Cost | undefined, cost: Cost): Cost {
  if (!sum) return cost;
  return {
    ...sum,
    transactions: sum.transactions + cost.transactions,
    failed: sum.failed + cost.failed,
    items: sum.items + cost.items,
    gas: sum.gas + cost.gas,
    wei: sum.wei + cost.wei,
  };
}

function costToWire({ purpose, transactions, items, gas, wei }: Cost, nativePrice: number | undefined) {
  const isPriced = nativePrice !== undefined && items > 0;
  const centsPerItem = isPriced ? Number((centsOf(Number(wei), nativePrice) / items).toPrecision(6)) : undefined;
  return {
    purpose,
    transactions,
    items,
    gas: gas.toString(),
    wei: wei.toString(),
    ...(centsPerItem !== undefined && { centsPerItem }),
  };
}

function perItem({ items, gas, wei }: Cost) {
  if (items === 0) return {};
  return { gasPerItem: Number(gas / BigInt(items)), weiPerItem: (wei / BigInt(items)).toString() };
}

interface ProviderSum extends Sum {
  readonly provider: string;
}

/** Highest volume first. */
async function volumeByProvider(db: Db, scope: Scope, range: Range, limit: number | undefined): Promise<ProviderSum[]> {
  const { rows } = await sql<{ provider: string; count: number; amount: string }>`
    select provider, sum(count)::int8 as count, sum(amount) as amount from (${paidIn(scope, range)}) s where count > 0
    group by provider order by sum(amount) desc, provider limit ${limit ?? null}::bigint`.execute(db);
  return rows.map((row) => ({ ...row, amount: BigInt(row.amount) }));
}

const paidIn = ({ chainId, token }: Scope, { fromSec, toSec }: Range): RawBuilder<unknown> => sql`
  select provider, count, amount from rollup_providers
  where chain_id = ${chainId} and token = ${token} and bucket >= ${fromSec} and bucket < ${toSec}`;
