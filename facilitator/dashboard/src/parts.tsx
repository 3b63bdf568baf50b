/** The pieces that every page is made of. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import type { Query } from "./api";
import { shorten } from "./format";
import { type Loaded, useSigned } from "./use";

/** Shows what was loaded; old figures stay readable under a notice while nobody answers. */
export function Shown<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
  switch (of.kind) {
    case "loading":
      return (
        <p class="loading" role="status">
          Loading…
        </p>
      );
    case "problem":
      return (
        <>
          <p class="problem" role="alert">
            {of.problem.message} <code>{of.problem.code}</code>
          </p>
          {of.stale !== undefined && children(of.stale)}
        </>
      );
    case "ready":
      return <>{children(of.data)}</>;
  }
}

export function Panel({ title, note, children }: { title: string; note?: string; children: ComponentChildren }) {
  return (
    <section class="panel">
      <h2>{title}</h2>
      {note && <p class="note">{note}</p>}
      {children}
    </section>
  );
}

export function Figure({ label, value, unit, note }: { label: string; value: string; unit?: string; note?: string }) {
  return (
    <div class="figure">
      <dt>{label}</dt>
      <dd>
        <strong>{value}</strong>
        {unit && <small> {unit}</small>}
        {note && <span class="note">{note}</span>}
      </dd>
    </div>
  );
}

export function Figures({ children }: { children: ComponentChildren }) {
  return <dl class="figures">{children}</dl>;
}

export interface Column<T> {
  readonly title: string;
  readonly isNumber?: boolean;
  cell(row: T): ComponentChildren;
}

export function Table<T>({
  caption,
  columns,
  rows,
  empty,
}: {
  caption: string;
  columns: readonly Column<T>[];
  rows: readonly T[];
  empty: string;
}) {
  if (rows.length === 0) return <p class="empty">{empty}</p>;
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard
    <section class="scroll" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map(({ title, isNumber }) => (
              <th key={title} scope="col" class={isNumber ? "number" : undefined}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row, index) => (
            <tr key={index}>
              {columns.map(({ title, isNumber, cell }) => (
                <td key={title} class={isNumber ? "number" : undefined}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** A hash or address, shortened for the eye and whole for the clipboard. */
export function Hex({ value }: { value: string }) {
  return (
    <code title={value} class="hex">
      {shorten(value)}
    </code>
  );
}

const TONES: Readonly<Record<string, string>> = {
  settled: "good",
  ACTIVE: "good",
  delivered: "good",
  enabled: "good",
  pending: "waiting",
  PAUSED: "waiting",
  PAST_DUE: "waiting",
  failed: "bad",
  reversed: "bad",
  EXPIRED: "bad",
  disabled: "bad",
  dropped: "bad",
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
        {Object.entries(options).map(([key, text]) => (
          <option key={key} value={key}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Download({ path, query, name }: { path: string; query: Query; name: string }) {
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
        CSV
      </button>
      {problem && <span role="alert">{problem}</span>}
    </>
  );
}

/** Pages of a list, each a cursor deeper than the one before. */
export function Pager({
  next,
  onMore,
  hasBack,
  onBack,
}: {
  next: string | undefined;
  onMore: () => void;
  hasBack: boolean;
  onBack: () => void;
}) {
  if (!next && !hasBack) return null;
  return (
    <nav class="pager" aria-label="Pages of the list">
      <button type="button" disabled={!hasBack} onClick={onBack}>
        Newer
      </button>
      <button type="button" disabled={!next} onClick={onMore}>
        Older
      </button>
    </nav>
  );
}
