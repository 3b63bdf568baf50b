/** Completes and validates a query's scope, token and days. */
import { type Address, type Clock, InvalidRequest } from "turnpike/protocol";
import { type FacilitatorConfig, findToken } from "../config";
import type { Db } from "../db/open";
import { DAY_SEC, HOUR_SEC } from "../lib/durations";
import type { Grain } from "./rollups";

export interface AnalyticsOptions {
  readonly db: Db;
  readonly config: FacilitatorConfig;
  readonly clock: Clock;
}

export interface Scope {
  readonly chainId: number;
  /** undefined: of all providers */
  readonly provider: string | undefined;
  readonly token: string;
}

export interface Range {
  readonly fromSec: number;
  /** exclusive */
  readonly toSec: number;
}

/** One provider's figures, or those of all providers together, which only operators may read. */
export type Whose = Address | "everyone";

export interface FiguresQuery {
  /** undefined: the first one configured */
  readonly token?: Address | undefined;
  /** inclusive; widened to the start of its hour or day; undefined: `days` before `toSec` */
  readonly fromSec: number | undefined;
  /** exclusive; undefined: the end of today */
  readonly toSec: number | undefined;
  readonly days: number;
}

/** How long hours are kept. */
export const HOURS_KEPT_DAYS = 90;

const MAX_DAYS = 3 * 366;

export interface TokenUnit {
  readonly token: Address;
  readonly decimals: number;
}

/** A list that is too long for one response, and the token of its amounts. */
export interface PagedRows<T> {
  readonly unit: TokenUnit;
  pageAfter(cursor: string | undefined, limit: number): Promise<{ rows: readonly T[]; next?: string | undefined }>;
}

export interface RangesOptions {
  readonly config: Pick<FacilitatorConfig, "chainId" | "tokens">;
  readonly clock: Clock;
}

export function createRanges({ config, clock }: RangesOptions) {
  return {
    scopeOf(whose: Whose, token: Address | undefined): { scope: Scope; unit: TokenUnit } {
      const known = token === undefined ? config.tokens[0] : findToken(config as FacilitatorConfig, token);
      if (!known) throw new InvalidRequest("token: is none of this Facilitator's: see GET /supported");
      const provider = whose === "everyone" ? undefined : whose;
      return {
        scope: { chainId: config.chainId, provider, token: known.address },
        unit: { token: known.address, decimals: known.decimals },
      };
    },

    rangeOf({ fromSec, toSec, days }: FiguresQuery, grain: Grain): Range {
      const nowSec = clock.nowSec();
      const to = toSec === undefined ? ceilTo(nowSec + 1, DAY_SEC) : ceilTo(toSec, grain);
      const from = floorTo(Math.max(0, fromSec ?? to - days * DAY_SEC), grain);
      const badStart = (message: string) => refusalOf(fromSec === undefined ? "days" : "from", message);
      if (from >= to || (fromSec !== undefined && toSec !== undefined && fromSec >= toSec)) {
        throw badStart("must be before `to`");
      }
      if (to - from > MAX_DAYS * DAY_SEC) throw badStart(`must be at most ${MAX_DAYS} days before \`to\``);
      if (grain === HOUR_SEC && from < hoursKeptSince(nowSec)) {
        throw badStart(`hours are kept for ${HOURS_KEPT_DAYS} days: ask for \`grain=day\``);
      }
      return { fromSec: from, toSec: to };
    },
  };
}

/** Returns the start of the first day whose hours are kept, unix seconds. */
export const hoursKeptSince = (nowSec: number): number => floorTo(nowSec, DAY_SEC) - HOURS_KEPT_DAYS * DAY_SEC;

const refusalOf = (field: "days" | "from", message: string) =>
  new InvalidRequest(`${field}: ${message}`, { details: { field, in: "query" } });

const floorTo = (timeSec: number, grain: Grain): number => timeSec - (timeSec % grain);

const ceilTo = (timeSec: number, grain: Grain): number => floorTo(timeSec + grain - 1, grain);

const badCursor = () =>
  new InvalidRequest("cursor: must be one that an earlier page returned", {
    details: { field: "cursor", in: "query" },
  });

/** @throws InvalidRequest for a cursor that no page returned */
export function sequenceOf(cursor: string | undefined): number | undefined {
  if (cursor === undefined) return undefined;
  if (!/^\d{1,15}$/.test(cursor)) throw badCursor();
  return Number(cursor);
}

/** A page of a list that a figure orders. */
export interface Ordered<Sort extends string> {
  readonly sort: Sort;
  readonly order: "asc" | "desc";
  readonly cursor?: string | undefined;
  readonly limit: number;
}

/** The figure and the id of the last row of a page. */
interface Place {
  readonly figure: string;
  readonly id: string;
}

/**
 * Names the order, which a cursor is of: figures of two orders have nothing in common.
 * @returns undefined: nothing follows the last row
 */
export const cursorAfter = (
  { sort, order, limit }: Ordered<string>,
  rows: readonly Place[],
): { readonly next?: string } => {
  const last = rows.length === limit ? rows.at(-1) : undefined;
  return last ? { next: `${sort}-${order}.${last.figure}.${last.id}` } : {};
};

/** @throws InvalidRequest for a cursor that no page of this order returned */
export function placeOf({ sort, order, cursor }: Ordered<string>, form: RegExp): Place | undefined {
  if (cursor === undefined) return undefined;
  const [by, figure = "", id = "", more] = cursor.split(".");
  if (by !== `${sort}-${order}` || more !== undefined || !form.test(`${figure} ${id}`)) throw badCursor();
  return { figure, id };
}

/** @throws InvalidRequest for a cursor that no page returned */
export function positionOf(cursor: string | undefined): { time: number; id: string } | undefined {
  if (cursor === undefined) return undefined;
  const match = /^(\d{1,15})\.(0x[0-9a-f]{64})$/.exec(cursor);
  if (!match) throw badCursor();
  return { time: Number(match[1]), id: match[2] ?? "" };
}
