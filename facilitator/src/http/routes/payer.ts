/** What the wallet of an API key was charged: pages as JSON, whole lists as CSV. */
import { type ChargedListWire, PAYER_ENDPOINTS, type PaidListWire, type SpendWire } from "turnpike/facilitator";
import { type Endpoint, ok, routes } from "../endpoint";
import { bothForms, CSV_PAGE, isoTime, money, rangeOf, sheetOfPages } from "../figures";
import type { ApiServices } from "../services";

type Paid = PaidListWire["payments"][number];

type Charged = ChargedListWire["charges"][number];

type Day = SpendWire["days"][number];

const COMMON = {
  at: ({ at }: Paid | Charged) => isoTime(at),
  provider: ({ provider }: Paid | Charged) => provider,
  amount: money(({ amount }: Paid | Charged) => amount),
  refunded: money(({ refunded }: Paid | Charged) => refunded ?? "0"),
  transaction: ({ transaction }: Paid | Charged) => transaction,
};

const PAID_COLUMNS = {
  ...COMMON,
  id: ({ id }: Paid) => id,
  resource: ({ resource }: Paid) => resource,
};

const CHARGED_COLUMNS = {
  ...COMMON,
  scheme: ({ scheme }: Charged) => scheme,
  idHash: ({ idHash }: Charged) => idHash,
  planId: ({ planId }: Charged) => planId,
};

const DAY_COLUMNS = {
  day: ({ at }: Day) => isoTime(at).slice(0, 10),
  provider: ({ provider }: Day) => provider,
  count: ({ count }: Day) => count,
  amount: money(({ amount }: Day) => amount),
};

/** The key's own wallet is the payer: no request names another. */
export function payerEndpoints(services: ApiServices): Endpoint[] {
  const { analytics } = services;
  const unitOf = ({ token }: { readonly token: string }) => ({ token, decimals: analytics.decimalsOf(token) });
  return routes(services, PAYER_ENDPOINTS, {
    listPaid: async ({ query, caller: { provider } }) => ok(await analytics.paid(provider, query)),
    listPaidCsv: ({ query, caller: { provider } }) =>
      sheetOfPages(
        "paid",
        { columns: PAID_COLUMNS, unitOf },
        async (cursor) => {
          const { payments: rows, next } = await analytics.paid(provider, { cursor, limit: CSV_PAGE });
          return { rows, next };
        },
        query.cursor,
      ),
    listCharged: async ({ query, caller: { provider } }) => ok(await analytics.charged(provider, query)),
    listChargedCsv: ({ query, caller: { provider } }) =>
      sheetOfPages(
        "charged",
        { columns: CHARGED_COLUMNS, unitOf },
        async (cursor) => {
          const { charges: rows, next } = await analytics.charged(provider, { cursor, limit: CSV_PAGE });
          return { rows, next };
        },
        query.cursor,
      ),
    ...bothForms(PAYER_ENDPOINTS.getSpend, {
      name: "spend",
      load: (query, { provider }) => analytics.spend(provider, rangeOf(query)),
      rows: ({ days }) => days,
      columns: DAY_COLUMNS,
    }),
  });
}
