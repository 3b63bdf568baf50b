/** What endpoints of figures have in common: the days of a query, and the same answer as JSON and as CSV. */
import { type Address, addressSchema } from "turnpike/protocol";
import { z } from "zod";
import type { Caller } from "../providers";
import { type Cell, toCsv } from "./csv";
import { type Admission, type Endpoint, endpoint } from "./endpoint";

/** Rows of one CSV. */
export const CSV_ROWS = 10_000;

const timeSchema = z
  .string()
  .regex(/^(?:0|[1-9][0-9]{0,11})$/, "must be a time in unix seconds")
  .transform(Number);
export const figures = {
  token: addressSchema.optional(),
  /** inclusive; widened to whole days or hours; absent: `days` before `to` */
  from: timeSchema.optional(),
  /** exclusive; absent: the end of today, in chain time */
  to: timeSchema.optional(),
  days: z
    .string()
    .regex(/^[1-9][0-9]{0,3}$/, "must be a number of days")
    .default("30")
    .transform(Number),
};

interface FiguresFields {
  readonly token?: Address | undefined;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
  readonly days: number;
}

export const rangeOf = ({ token, from, to, days }: FiguresFields) => ({ token, fromSec: from, toSec: to, days });

export const ok = <T>(body: T) => ({ status: 200 as const, body });

export const sheet = (name: string, body: string, next?: string) => ({
  status: 200 as const,
  body,
  headers: {
    "content-disposition": `attachment; filename="turnpike-${name}.csv"`,
    ...(next === undefined ? {} : { "x-next": next }),
  },
});

export const isoTime = (timeSec: number): string => new Date(timeSec * 1_000).toISOString();

interface Both<Q extends z.ZodObject, A extends z.ZodType, R> {
  readonly path: string;
  readonly tag: string;
  readonly admission: Admission<Caller>;
  readonly summary: string;
  readonly query: Q;
  readonly answer: A;
  /** of the CSV's file */
  readonly name: string;
  load(query: z.output<Q>, caller: Caller): Promise<z.input<A>>;
  rows(answer: z.input<A>): readonly R[];
  readonly columns: Readonly<Record<string, (row: R) => Cell>>;
}

/** The endpoint, and the same with `.csv`: its rows, times as text, amounts in base units. */
export function bothForms<Q extends z.ZodObject, A extends z.ZodType, R>(spec: Both<Q, A, R>): Endpoint[] {
  const { path, tag, admission, summary, query, answer, name, load, rows, columns } = spec;
  return [
    endpoint({
      ...{ method: "get", path, tag, admission, summary, query },
      answers: { 200: answer },
      handle: async ({ query: asked, caller }) => ok(await load(asked, caller)),
    }),
    endpoint({
      ...{ method: "get", path: `${path}.csv`, tag, admission, query },
      summary: "The same as CSV; amounts in base units.",
      mediaType: "text/csv",
      answers: { 200: z.string() },
      handle: async ({ query: asked, caller }) => sheet(name, toCsv({ columns }, rows(await load(asked, caller)))),
    }),
  ];
}
