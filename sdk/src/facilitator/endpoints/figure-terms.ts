/** The terms that endpoints of figures share: ranges, pages, and the same rows as JSON and as CSV. */
import * as z from "zod";
import { addressSchema } from "../../protocol";
import { limitSchema, PAGED } from "./endpoint";

export const RANGE = "Covers a range of whole UTC days, or `from` and `to`. Amounts are decimal strings of base units.";

export const timeSchema = z
  .string()
  .regex(/^(?:0|[1-9][0-9]{0,11})$/, "must be a time in unix seconds")
  .transform(Number);

export const range = {
  token: addressSchema.optional(),
  /** inclusive; widened to whole days or hours; absent: `days` before `to` */
  from: timeSchema.optional(),
  /** exclusive; absent: the end of today, in chain time */
  to: timeSchema.optional(),
  days: z
    .string()
    .regex(/^(?:[1-9][0-9]{0,2}|10[0-8][0-9]|109[0-8])$/, "must be a whole number from 1 to 1098")
    .default("30")
    .transform(Number),
};

export const ofRange = z.object(range);

export const ofGrain = z.object({ ...range, grain: z.enum(["hour", "day"]).default("day") });

const cursor = z.string().max(128).optional();

export const pageOf = <F extends z.ZodRawShape>(filter: F) => z.object({ ...filter, cursor, limit: limitSchema });

/** Pages of a list that is ordered by one of these figures, by the first unless it is named. */
export const orderedBy = <const S extends readonly [string, ...string[]], F extends z.ZodRawShape>(
  figures: S,
  filter: F,
) =>
  pageOf({
    ...filter,
    sort: z.enum(figures).default(figures[0] as never),
    order: z.enum(["desc", "asc"]).default("desc"),
  });

/** All rows of a list, from a cursor. */
export const allOf = <F extends z.ZodRawShape>(filter: F) => z.object({ ...filter, cursor });

interface Figures<P extends string, Q extends z.ZodObject, A extends z.ZodType> {
  readonly path: P;
  readonly text: string;
  readonly query: Q;
  readonly answer: A;
}

export const json = <const P extends string, Q extends z.ZodObject, A extends z.ZodType>({
  answer,
  ...terms
}: Figures<P, Q, A>) => ({ method: "get", scope: "read", ...terms, answers: { 200: answer } }) as const;

export const csv = <const P extends string, Q extends z.ZodObject>({
  path,
  text,
  query,
}: Omit<Figures<P, Q, never>, "answer">) =>
  ({
    method: "get",
    path: `${path}.csv`,
    text: `${text} As CSV, in base units and as decimals.`,
    scope: "read",
    query,
    mediaType: "text/csv",
    answers: { 200: z.string() },
  }) as const;

type Both<K extends string, P extends string, Q extends z.ZodObject, A extends z.ZodType> = {
  readonly [_ in K]: ReturnType<typeof json<P, Q, A>>;
} & { readonly [_ in `${K}Csv`]: ReturnType<typeof csv<P, Q>> };

/** The endpoint, and the same rows as CSV. */
export const both = <K extends string, const P extends string, Q extends z.ZodObject, A extends z.ZodType>(
  id: K,
  figures: Figures<P, Q, A>,
) => ({ [id]: json(figures), [`${id}Csv`]: csv(figures) }) as Both<K, P, Q, A>;

export const paged = <P extends string, F extends z.ZodRawShape, A extends z.ZodType>(
  { path, text }: Pick<Figures<P, never, A>, "path" | "text">,
  filter: F,
  answer: A,
) => json({ path, text: `${text} ${PAGED}`, query: pageOf(filter), answer });
