/** Draws charts over time, with values on hover and as a table for screen readers. */
import { useEffect, useRef } from "preact/hooks";
import { formatDay, formatHour, formatMonth, formatShort } from "./format";
import { useCode } from "./later";
import { Empty } from "./parts";

export interface Series {
  readonly name: string;
  /** of the style sheet, `--s1` to `--s6` or a tone */
  readonly color: string;
  readonly values: readonly number[];
  /** as the tooltip and the table show them */
  readonly texts: readonly string[];
}

export interface ChartProps {
  readonly title: string;
  /** `bars` are stacked; a `line` holds until the next value */
  readonly kind?: "bars" | "line";
  /** starts of the hours or days, unix seconds */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly unit: string;
  readonly empty: string;
  /** bars to compare with, drawn behind the others */
  readonly behind?: Series;
  /** prefix of the axis figures */
  readonly sign?: string;
  readonly height?: number;
  formatAt(timeSec: number): string;
}

const HEIGHT = 240;
const DAY_SEC = 86_400;

export function Chart({
  title,
  kind = "bars",
  times,
  series,
  unit,
  empty,
  behind,
  sign = "",
  height = HEIGHT,
  formatAt,
}: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const shown = series.filter(({ values }) => values.some((value) => value !== 0));
  const drawn = behind ? [...shown, behind] : shown;

  const { data: code } = useCode("charts", () => import("./plot"));
  useEffect(() => {
    if (!code || !frame.current || !tip.current || shown.length === 0) return;
    const write = (value: number) => `${sign}${formatShort(value)}`;
    const props = { kind, times, shown, behind, height, formatAt, labels, write };
    return code.plotOf(frame.current, tip.current, props);
  }, [code, times, series, behind]);

  if (shown.length === 0) return empty ? <Empty title={empty} /> : null;
  return (
    <figure class="chart">
      {(shown.length > 1 || kind === "bars") && (
        <ul class="legend" aria-hidden="true">
          {drawn.map(({ name, color }) => (
            <li key={name}>
              <i style={{ background: `var(${color})` }} />
              {name}
            </li>
          ))}
        </ul>
      )}
      {sign === "" && (
        <p class="unit" aria-hidden="true">
          {unit.split(",")[0]}
        </p>
      )}
      <div
        class="plot"
        ref={frame}
        style={{ minHeight: `${height}px` }}
        role="img"
        aria-label={`${title}: ${times.length} ${kind === "bars" ? "bars" : "points"}; the values are in the table below`}
      >
        <div class="tip" ref={tip} hidden />
      </div>
      <details>
        <summary>Values as a table</summary>
        {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
        <section class="scroll" aria-label={`${title}, values`} tabIndex={0}>
          <table>
            <caption class="hidden">
              {title}, {unit}
            </caption>
            <thead>
              <tr>
                <th scope="col">From</th>
                {drawn.map(({ name }) => (
                  <th key={name} scope="col" class="number">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {times.map((at, index) =>
                drawn.every(({ values }) => !values[index]) ? null : (
                  <tr key={at}>
                    <th scope="row">{formatAt(at)}</th>
                    {drawn.map(({ name, texts }) => (
                      <td key={name} class="number" data-name={name}>
                        {texts[index]}
                      </td>
                    ))}
                  </tr>
                ),
              )}
            </tbody>
          </table>
        </section>
      </details>
    </figure>
  );
}

function labels(ticks: readonly number[], step: number): string[] {
  const write = step >= 28 * DAY_SEC ? formatMonth : step >= DAY_SEC ? formatDay : formatHour;
  return ticks.map((tick) => (step < DAY_SEC && tick % DAY_SEC === 0 ? formatDay(tick) : write(tick)));
}
