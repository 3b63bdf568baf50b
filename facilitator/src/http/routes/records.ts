/** What a provider finds and reads: search, the story of one record, the ledger. */
import { RECORD_ENDPOINTS } from "turnpike/facilitator";
import { isAddress } from "turnpike/protocol";
import { localTimeIn, type Movement } from "../../analytics/ledger";
import type { Caller } from "../../providers/keys";
import { type Endpoint, ok, routes } from "../endpoint";
import { CSV_PAGE, decimalOf, plain, sheetOfPages } from "../figures";
import type { ApiServices } from "../services";

export function recordEndpoints(services: ApiServices): Endpoint[] {
  const { analytics, providers } = services;

  async function withDeliveries<T>(caller: Caller, { story, events }: StoryOf<T>) {
    if (!caller.scopes.includes("webhooks")) return ok(story);
    const ids = events.map(({ id }) => id);
    return ok({ ...story, deliveries: await providers.deliveries.of(caller, ids) });
  }

  return routes(services, RECORD_ENDPOINTS, {
    async search({ query: { q }, caller }) {
      const [hits, labels, endpoints] = await Promise.all([
        analytics.search(caller.provider, q),
        providers.labels.list(caller.provider),
        caller.scopes.includes("webhooks") ? providers.endpoints.list(caller) : [],
      ]);
      const wanted = q.toLowerCase();
      const described = endpoints.filter(({ description }) => description.toLowerCase().startsWith(wanted));
      const found = described.map(({ id, description }) => {
        return { kind: "endpoint" as const, id, text: description, page: `/webhooks?endpoint=${id}` };
      });
      const named = labels.filter(({ text }) => text.toLowerCase().includes(wanted));
      const labelled = named.map(({ object: id, text }) => {
        const kind = isAddress(id) ? ("payer" as const) : ("plan" as const);
        return { kind, id, text, page: `/${kind}s/${id}` };
      });
      const all = new Map([...labelled, ...hits, ...found].map((hit) => [`${hit.kind} ${hit.id}`, hit]));
      return ok({ hits: [...all.values()].slice(0, MAX_HITS) });
    },
    async getLedger({ query: { cursor, limit, ...filter }, caller: { provider } }) {
      const [totals, page] = await Promise.all([
        analytics.movementTotals(provider, filter),
        analytics.movements(provider, filter, { cursor, limit }),
      ]);
      return ok({ ...totals, ...page });
    },
    getLedgerCsv({ query: filter, caller: { provider } }) {
      const decimalsOf = ({ token }: Movement) => analytics.decimalsOf(token);
      const amount = (read: (row: Movement) => string) =>
        plain((row: Movement) => decimalOf(read(row), decimalsOf(row)) ?? read(row));
      const timeOf = timeIn(filter.zone);
      const columns = {
        date: plain(({ at }: Movement) => timeOf(at)),
        id: ({ id }: Movement) => id,
        kind: ({ kind }: Movement) => kind,
        gross: amount(({ gross }) => gross),
        refunded: amount(({ refunded }) => refunded),
        net: amount(({ net }) => net),
        token: ({ token }: Movement) => token,
        decimals: decimalsOf,
        payer: ({ payer }: Movement) => payer,
        plan: ({ planId }: Movement) => planId,
        route: ({ route }: Movement) => route,
        memo: ({ memo }: Movement) => memo,
        transaction: ({ transaction }: Movement) => transaction,
      };
      return sheetOfPages(filter.month ? `ledger-${filter.month}` : "ledger", { columns }, async (cursor) => {
        const { movements: rows, next } = await analytics.movements(provider, filter, { cursor, limit: CSV_PAGE });
        return { rows, next };
      });
    },
    getPaymentStory: async ({ params: { id }, caller, concerns }) => {
      concerns(id);
      return withDeliveries(caller, await analytics.paymentStory(caller.provider, id));
    },
    getChargeStory: async ({ params: { id }, caller }) =>
      withDeliveries(caller, await analytics.chargeStory(caller.provider, id)),
  });
}

const MAX_HITS = 20;

const MINUTE_SEC = 60;

/** Formats times as ISO 8601 with the zone's offset: `2026-11-01T00:00:00+01:00`. */
function timeIn(zone: string): (timeSec: number) => string {
  const local = localTimeIn(zone);
  return (timeSec) => {
    const shownMs = local(timeSec * 1_000);
    const offset = Math.round((shownMs / 1_000 - timeSec) / MINUTE_SEC);
    const two = (count: number): string => String(count).padStart(2, "0");
    const [hours, minutes] = [Math.floor(Math.abs(offset) / 60), Math.abs(offset) % 60];
    return `${new Date(shownMs).toISOString().slice(0, 19)}${offset < 0 ? "-" : "+"}${two(hours)}:${two(minutes)}`;
  };
}

interface StoryOf<T> {
  readonly story: T;
  readonly events: readonly { readonly id: string }[];
}
