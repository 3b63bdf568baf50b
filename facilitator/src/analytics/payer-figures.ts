import type { ChargeListWire, PayerFiguresWire } from "turnpike/facilitator";
import { type Address, refundedIdOf } from "turnpike/protocol";
import { refundedSums } from "../payments/refunds";
import { targetOf } from "./charges";
import { type ChargeRow, type ListQuery, listCharges } from "./lists";
import { netOf, netToWire, type PayerFigures, type PayerOrder, payersOf, sumsByKind } from "./queries";
import {
  type AnalyticsOptions,
  createRanges,
  cursorAfter,
  type FiguresQuery,
  type PagedRows,
  placeOf,
  sequenceOf,
} from "./ranges";

export interface PayersFigures {
  payers(
    provider: Address,
    query: Pick<FiguresQuery, "token"> & PayerOrder & { readonly payer?: Address | undefined },
  ): Promise<PayerFiguresWire>;
  allPayers(provider: Address, token: Address | undefined): PagedRows<PayerFiguresWire["payers"][number]>;
  charges(
    provider: Address,
    query: ListQuery & { readonly payer: Address; readonly token?: Address | undefined },
  ): Promise<ChargeListWire>;
}

/** What a cursor has: a figure and an address. */
const PLACE = /^-?\d{1,78} 0x[0-9a-fA-F]{40}$/;

const PLACE_BY_COUNT = /^\d{1,15} 0x[0-9a-fA-F]{40}$/;

const EVER = { fromSec: 0, toSec: Number.MAX_SAFE_INTEGER };

export function createPayerFigures({ db, config, clock }: AnalyticsOptions): PayersFigures {
  const { chainId } = config;
  const { scopeOf } = createRanges({ config, clock });
  return {
    async payers(provider, { token, payer, ...by }) {
      const { scope, unit } = scopeOf(provider, token);
      const after = placeOf(by, by.sort === "payments" ? PLACE_BY_COUNT : PLACE);
      const payers = await payersOf(db, scope, { limit: by.limit, payer, by, after });
      const total = payer === undefined ? netToWire(netOf(await sumsByKind(db, scope, EVER))) : undefined;
      const places = payers.map((row) => ({ figure: row.figure, id: row.payer }));
      return { ...unit, payers: payers.map(payerToWire), ...(total && { total }), ...cursorAfter(by, places) };
    },

    allPayers(provider, token) {
      const { scope, unit } = scopeOf(provider, token);
      return {
        unit,
        async pageAfter(id = "", limit) {
          const rows = await payersOf(db, scope, { limit, after: { id } });
          return { rows: rows.map(payerToWire), ...(rows.length === limit && { next: rows.at(-1)?.payer }) };
        },
      };
    },

    async charges(provider, { payer, token, cursor, limit }) {
      const { unit } = scopeOf(provider, token);
      const filter = { chainId, provider, payer, token: unit.token };
      const rows = await listCharges(db, filter, { afterSeq: sequenceOf(cursor), limit });
      const named = await namedCharges({ db, config }, rows);
      return {
        ...unit,
        payer,
        charges: named.map(({ row, target, refunded }) => ({
          id: row.id,
          at: row.block_time,
          scheme: row.scheme,
          token: unit.token,
          amount: row.amount,
          subject: row.object_id,
          ...(row.transaction && { transaction: row.transaction }),
          target,
          ...(refunded !== undefined && { refunded }),
        })),
        ...(rows.length === limit && { next: String(rows.at(-1)?.seq) }),
      };
    },
  };
}

/** Adds to each charge how a refund names it, and what was refunded of it. */
export async function namedCharges(
  { db, config }: Pick<AnalyticsOptions, "db" | "config">,
  rows: readonly ChargeRow[],
) {
  const named = rows.map((row) => {
    const target = targetOf(row);
    return { row, target, id: refundedIdOf(config, target) };
  });
  const sums = await refundedSums(
    db,
    config.chainId,
    named.map(({ id }) => id),
  );
  return named.map(({ row, target, id }) => ({ row, target, refunded: sums.get(id)?.toString() }));
}

const payerToWire = ({ payer, ...sum }: PayerFigures) => ({ payer, ...netToWire(sum) });
