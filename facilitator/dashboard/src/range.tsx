/** Selects the days, token and grain of the figures. */
import type { ComponentChildren } from "preact";
import type { Query } from "./api";
import { formatDate, formatDay, formatHour } from "./format";
import { Choice } from "./parts";
import { isSandbox } from "./session";
import { useQueryField, useSigned } from "./use";

const RANGES = { "1": "Today", "7": "7 days", "30": "30 days", "90": "90 days", "365": "1 year" };

const HOUR_SEC = 3_600;
const DAY_SEC = 86_400;

export interface Range {
  /** of every query for figures */
  readonly query: Query;
  readonly grain: "hour" | "day";
  /** the values of the controls */
  readonly choices: ComponentChildren;
}

/** In a sandbox, where a click advances a month, a month is too short to show anything. */
const DEFAULT_DAYS = isSandbox ? "90" : "30";

export function useRange(): Range {
  const [days, setDays] = useQueryField("days", DEFAULT_DAYS);
  const { token, choice } = useToken();
  return {
    query: { days, token },
    grain: Number(days) <= 7 ? "hour" : "day",
    choices: (
      <>
        {choice}
        <Choice label="Range" value={days} options={RANGES} onChange={setDays} />
      </>
    ),
  };
}

/** Selects the token when the service settles several: two tokens are never added up. */
export function useToken(): { readonly token: string | undefined; readonly choice: ComponentChildren } {
  const { tokens } = useSigned().supported;
  const first = tokens[0]?.address ?? "";
  const [token, set] = useQueryField("token", first);
  return {
    token: token === first ? undefined : token,
    choice: tokens.length > 1 && (
      <Choice
        label="Token"
        value={token}
        options={Object.fromEntries(tokens.map(({ address, name }) => [address, name]))}
        onChange={set}
      />
    ),
  };
}

/** Returns the starts of the steps between two times: hours for a few days, days for a season, weeks for a year. */
export interface Steps {
  readonly times: readonly number[];
  /** index of the step that contains a time; -1 outside */
  placeOf(timeSec: number): number;
  formatAt(timeSec: number): string;
}

export function stepsOf({ from, to }: { from: number; to: number }, grain: "hour" | "day"): Steps {
  const days = (to - from) / DAY_SEC;
  const size = grain === "hour" ? (days > 2 ? 6 * HOUR_SEC : HOUR_SEC) : days > 120 ? 7 * DAY_SEC : DAY_SEC;
  // Whole steps that end with the range.
  const count = Math.ceil((to - from) / size);
  const first = to - count * size;
  return {
    times: Array.from({ length: count }, (_, index) => first + index * size),
    placeOf: (timeSec) => {
      const place = Math.floor((timeSec - first) / size);
      return place < count ? place : -1;
    },
    formatAt: (at) => {
      if (size === DAY_SEC) return formatDate(at);
      if (size > DAY_SEC) return `${formatDay(at)} to ${formatDate(at + size - DAY_SEC)}`;
      return `${formatDay(at)} ${formatHour(at)}–${formatHour(at + size)}`;
    },
  };
}
