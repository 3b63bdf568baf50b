/** Defines the components that every page uses. */
import type { ComponentChildren } from "preact";
import { useContext, useState } from "preact/hooks";
import type { ApiProblem, CsvPath, Query } from "./api";
import { Copy } from "./copy";
import { endsOf, escapedText } from "./format";
import { useLabels } from "./labels";
import { type Loaded, Notices, Recovery, type Trail, useSigned } from "./use";

/** Says what went wrong, in the same way wherever it happens, and offers what helps. */
export function Problem({ of }: { of: ApiProblem }) {
  const { retry, signOut } = useContext(Recovery);
  const { code, message, requestId, status } = of;
  const isNowhere = status === 404 && /^(NoSuch|Unknown)/.test(code);
  return (
    <section class="panel failure" role="alert">
      <h2>{sayWhat(of)}</h2>
      <p>
        {message} <code>{code}</code>
      </p>
      <div class="buttons">
        {isNowhere ? (
          <a href="#/">Overview</a>
        ) : (
          <button type="button" onClick={code === CODE_MISSING ? () => location.reload() : retry}>
            Try again
          </button>
        )}
        {signOut && !isNowhere && (
          <button type="button" class="quiet" onClick={() => signOut()}>
            Sign out
          </button>
        )}
        {requestId && (
          <span class="note">
            Request <Hex value={requestId} /> <Copy value={requestId} what="the request's id" />
          </span>
        )}
      </div>
    </section>
  );
}

/** The code of an error: a part of the dashboard's own program did not load. */
export const CODE_MISSING = "CodeMissing";

function sayWhat({ status, code }: ApiProblem): string {
  if (code === CODE_MISSING) return "A part of this page did not load";
  if (status === 0) return navigator.onLine ? "No answer" : "You are offline";
  if (status >= 500) return "The Facilitator cannot answer now";
  return (
    { 403: "This key may not see this", 404: "Not found", 429: "Too many requests" }[status] ?? "That did not work"
  );
}

/** Shows why an act of the page failed. */
export function Alert({ text, id }: { text: string | undefined; id?: string }) {
  return text ? (
    <p class="problem" role="alert" {...(id && { id })}>
      {text}
    </p>
  ) : null;
}

/** The choices of a select, by value. */
export function Options({ of }: { of: Readonly<Record<string, string>> }) {
  return (
    <>
      {Object.entries(of).map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </>
  );
}

/** Shows loaded data. While requests fail, the former figures stay readable and the page shows one error. */
export function Shown<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
  const isShownAbove = useContext(Notices) !== undefined;
  const { data, problem } = of;
  if (data === undefined && !problem)
    return (
      <p class="loading" role="status">
        <span class="hidden">Loading…</span>
        <i aria-hidden="true" />
        <i aria-hidden="true" />
      </p>
    );
  return (
    <>
      {problem && !isShownAbove && <Problem of={problem} />}
      {data !== undefined ? children(data) : isShownAbove && <p class="empty">Not known now.</p>}
    </>
  );
}

export function Panel({
  title,
  note,
  aside,
  children,
}: {
  /** absent when the page's own heading says it */
  title?: string;
  note?: ComponentChildren;
  /** next to the title */
  aside?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section class="panel">
      {title && (
        <header>
          <h2>{title}</h2>
          {aside && <div class="aside">{aside}</div>}
        </header>
      )}
      {note && <p class="note">{note}</p>}
      {children}
    </section>
  );
}

type Tone = "good" | "waiting" | "bad";

export function Figure({
  label,
  value,
  note,
  tone,
  children,
}: {
  label: string;
  value: ComponentChildren;
  note?: ComponentChildren;
  /** of the note */
  tone?: Tone | undefined;
  children?: ComponentChildren;
}) {
  return (
    <div class="figure">
      <dt>{label}</dt>
      <dd>
        <strong>{value}</strong>
        {children}
        {note && <span class={tone ? `note ${tone}` : "note"}>{note}</span>}
      </dd>
    </div>
  );
}

/** A bar of the share for sighted users; screen readers get the figures next to it. */
export function Bar({ share, tone }: { share: number; tone?: Tone | "accent" | undefined }) {
  return (
    <span class="bar" aria-hidden="true">
      <i
        class={tone ?? "accent"}
        style={{ width: share <= 0 ? "0" : `${Math.max(1.5, Math.min(100, share * 100))}%` }}
      />
    </span>
  );
}

export function Controls({ children, areMany = false }: { children: ComponentChildren; areMany?: boolean }) {
  return <div class={areMany ? "controls many" : "controls"}>{children}</div>;
}

/** Shows that there is no data, and what would add some. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p>{title}</p>
      {children && <div class="note">{children}</div>}
    </div>
  );
}

export function Figures({ children }: { children: ComponentChildren }) {
  return <dl class="figures">{children}</dl>;
}

export interface Column<T> {
  readonly title: string;
  readonly isNumber?: boolean;
  /** hidden when there is little space */
  readonly isMinor?: boolean;
  /** hidden first when space is limited, as other columns contain it too */
  readonly isSpare?: boolean;
  /** sentences, which may wrap */
  readonly isProse?: boolean;
  cell(row: T): ComponentChildren;
  /** totals of all rows, in a row below them */
  readonly total?: ComponentChildren;
  /** the orders that the head of the column asks the API for, the usual one first */
  readonly sort?: readonly [descending: string, ascending: string];
}

export function Table<T>({
  caption,
  columns,
  rows,
  id,
  empty,
  sort = "",
  onSort,
}: {
  caption: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  /** of a row, which its buttons follow when the list is read again */
  id?: (row: T) => string;
  empty: ComponentChildren;
  /** the present order */
  sort?: string;
  onSort?: (sort: string) => void;
}) {
  if (rows.length === 0) return typeof empty === "string" ? <Empty title={empty} /> : <div>{empty}</div>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section class="scroll" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ title, ...column }) => (
              <th key={title} scope="col" class={classOf(column)} aria-sort={orderOf(column.sort, sort)}>
                {column.sort && onSort ? (
                  <Sorter title={title} orders={column.sort} sort={sort} onSort={onSort} />
                ) : (
                  title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={id?.(row) ?? index}>
              {columns.map(({ title, ...column }) => (
                <td key={title} class={classOf(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
        {columns.some(({ total }) => total !== undefined) && (
          <tfoot>
            <tr>
              {columns.map(({ title, ...column }) => (
                <td key={title} class={classOf(column)}>
                  {column.total}
                </td>
              ))}
            </tr>
          </tfoot>
        )}
      </table>
    </section>
  );
}

/** Asks for an order: `-paid` is the lowest first. */
export const orderedBy = (sort: string) =>
  ({ sort: sort.replace("-", ""), order: sort.startsWith("-") ? "asc" : "desc" }) as const;

type Orders = NonNullable<Column<never>["sort"]>;

function orderOf(orders: Orders | undefined, sort: string) {
  if (!orders?.includes(sort)) return undefined;
  return sort === orders[0] ? "descending" : "ascending";
}

function Sorter({
  title,
  orders,
  sort,
  onSort,
}: {
  title: string;
  orders: Orders;
  sort: string;
  onSort: (sort: string) => void;
}) {
  const [first, second] = orders;
  const mark = sort === first ? " ↓" : sort === second ? " ↑" : " ↕";
  return (
    <button type="button" class="sorter" onClick={() => onSort(sort === first ? second : first)}>
      {title}
      <span aria-hidden="true">{mark}</span>
    </button>
  );
}

type Look = Pick<Column<never>, "isNumber" | "isMinor" | "isSpare" | "isProse">;

function classOf({ isNumber, isMinor, isSpare, isProse }: Look) {
  const names = [isNumber && "number", (isMinor || isSpare) && "minor", isSpare && "spare", isProse && "prose"];
  return names.filter(Boolean).join(" ") || undefined;
}

/** Shows a hash or address by its two ends; copying and searching use the whole. */
export function Hex({ value }: { value: string }) {
  const [start, end] = endsOf(value);
  return (
    <code title={value} class="hex">
      {start}
      {end && <i>{value.slice(start.length, -end.length)}</i>}
      {end}
    </code>
  );
}

/** Truncates text of any length; the whole is shown on hover. */
export function Cut({ text, whole = text }: { text: string; whole?: string }) {
  return (
    <bdi class="cut" title={escapedText(whole)}>
      {escapedText(text)}
    </bdi>
  );
}

/** Links a subscription's public name to its page. */
export function SubscriptionLink({ of }: { of: string }) {
  return (
    <a href={`#/subscriptions/${of}`}>
      <Hex value={of} />
    </a>
  );
}

/** Links a payer to everything that it paid. */
export function PayerLink({ of }: { of: string }) {
  return (
    <a href={`#/payers/${of}`}>
      <Hex value={of} /> <Label of={of} />
    </a>
  );
}

export function PlanLink({ of, name }: { of: string; name: string }) {
  return (
    <a href={`#/plans/${of}`}>
      <Cut text={name} />
      <Label of={of} />
    </a>
  );
}

/** What the provider calls a payer or plan, where it calls it something. */
export function Label({ of }: { of: string }) {
  const text = useLabels().find(of);
  return text === undefined ? null : (
    <span class="note line">
      <Cut text={text} />
    </span>
  );
}

/** Content that gets a column of its own when there is space. */
export function Narrow({ children }: { children: ComponentChildren }) {
  return <span class="note line narrow">{children}</span>;
}

const TONES: Readonly<Record<string, Tone>> = {
  settled: "good",
  running: "good",
  well: "good",
  ok: "good",
  ready: "good",
  ACTIVE: "good",
  delivered: "good",
  enabled: "good",
  pending: "waiting",
  PAUSED: "waiting",
  PAST_DUE: "waiting",
  failed: "bad",
  failing: "bad",
  wrong_chain: "bad",
  reversed: "bad",
  refunded: "waiting",
  "partly refunded": "waiting",
  EXPIRED: "bad",
  disabled: "bad",
  dropped: "bad",
  "at risk": "waiting",
  exhausted: "bad",
  deprecated: "waiting",
  fails: "bad",
  stopped: "bad",
  "not ready": "bad",
};

export function Status({ of }: { of: string }) {
  return <span class={`status ${TONES[of] ?? "plain"}`}>{of.toLowerCase().replaceAll("_", " ")}</span>;
}

export function Choice({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: string;
  options: Readonly<Record<string, string>>;
  onChange: (value: string) => void;
}) {
  return (
    <label class="choice">
      <span>{label}</span>
      <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <Options of={options} />
      </select>
    </label>
  );
}

export function Download({
  path,
  query,
  name,
  title = "Save CSV",
}: {
  path: CsvPath;
  query: Query;
  name: string;
  /** for a page with several of them */
  title?: string;
}) {
  const { api } = useSigned();
  const [problem, setProblem] = useState<string>();
  return (
    <>
      <button
        type="button"
        class="quiet"
        onClick={() =>
          api.download(path, query, name).then(
            () => setProblem(undefined),
            (error: Error) => setProblem(error.message),
          )
        }
      >
        {title}
      </button>
      {problem && <span role="alert">{problem}</span>}
    </>
  );
}

export function Pager({
  trail,
  next,
  names: [back, on] = ["← Newer", "Older →"],
}: {
  trail: Trail;
  next: string | undefined;
  names?: readonly [back: string, on: string];
}) {
  if (!next && !trail.hasBack) return null;
  return (
    <nav class="pager" aria-label="Pages of the list">
      <button type="button" disabled={!trail.hasBack} onClick={trail.back}>
        {back}
      </button>
      <button type="button" disabled={!next} onClick={() => next && trail.go(next)}>
        {on}
      </button>
    </nav>
  );
}
