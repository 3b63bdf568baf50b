/** Draws charts over time, with values on hover and as a table for screen readers. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { formatDay, formatHour, formatMonth, formatShort } from "./format";

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
const FONT = "12px system-ui, sans-serif";
const bars = uPlot.paths.bars?.({ size: [0.8, 40], radius: 0.15 });
const wideBars = uPlot.paths.bars?.({ size: [0.96, 64], radius: 0.1 });
const steps = uPlot.paths.stepped?.({ align: 1 });

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

  useEffect(() => {
    const element = frame.current;
    const box = tip.current;
    if (!element || !box || shown.length === 0) return;
    const style = getComputedStyle(document.documentElement);
    const color = (name: string): string => style.getPropertyValue(name).trim();
    // Half a bar of space at either end.
    const half = kind === "bars" ? ((times[1] ?? 0) - (times[0] ?? 0)) / 2 : 0;
    const layers = kind === "bars" ? stacked(shown).reverse() : shown.map((one) => ({ ...one, tops: one.values }));
    const behindBars = behind && { fill: color(behind.color), width: 0, ...(wideBars && { paths: wideBars }) };
    const isWhole = shown.every(({ values }) => values.every(Number.isInteger));
    const draw = (): uPlot => {
      const axis = {
        stroke: color("--faint"),
        font: FONT,
        grid: { stroke: color("--line"), width: 1 },
        ticks: { show: false },
      };
      return new uPlot(
        {
          width: element.clientWidth,
          height,
          legend: { show: false },
          tzDate: (at) => uPlot.tzDate(new Date(at * 1_000), "UTC"),
          cursor: { y: false, drag: { x: false }, points: { show: false } },
          scales: {
            x: { time: true, range: (_, min, max) => [min - half, max + half] },
            y: { range: (_, __, max) => [0, (max ?? 0) * 1.08 || 1] },
          },
          axes: [
            {
              ...axis,
              grid: { show: false },
              size: 28,
              space: 72,
              values: (_, ticks, __, ___, step) => labels(ticks, step),
            },
            {
              ...axis,
              size: 56,
              ...(isWhole && {
                incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 1e6, 1e7],
              }),
              values: (_, ticks) => ticks.map((tick) => `${sign}${formatShort(tick)}`),
            },
          ],
          series: [
            {},
            ...(behindBars ? [{ ...behindBars, points: { show: false } }] : []),
            // The tallest first: each later one covers the lower part of it.
            ...layers.map(({ color: name }) => {
              const ink = color(name);
              return kind === "bars"
                ? { fill: ink, stroke: ink, width: 0, ...(bars && { paths: bars }), points: { show: false } }
                : { fill: `${ink}2e`, stroke: ink, width: 2, ...(steps && { paths: steps }), points: { show: false } };
            }),
          ],
          hooks: { setCursor: [(plot) => point(plot, box)] },
        },
        (kind === "bars"
          ? [[...times], ...(behind ? [behind.values] : []), ...layers.map(({ tops }) => tops)]
          : // The last value holds for its day too.
            [
              [...times, (times.at(-1) ?? 0) + DAY_SEC],
              ...layers.map(({ tops }) => [...tops, tops.at(-1) ?? 0]),
            ]) as uPlot.AlignedData,
        element,
      );
    };

    function point(plot: uPlot, target: HTMLDivElement): void {
      const { idx: found, left = -1 } = plot.cursor;
      const idx = Math.min(found ?? -1, times.length - 1);
      const at = times[idx];
      target.hidden = at === undefined || left < 0;
      if (at === undefined) return;
      const lines = drawn.flatMap(({ name, texts, values }) => (values[idx] ? [`${name}: ${texts[idx]}`] : []));
      target.textContent = [formatAt(at), ...(lines.length > 0 ? lines : ["none"])].join("\n");
      // On the side with enough space.
      const width = element?.clientWidth ?? 0;
      const place = left + 72;
      target.style.left = `${place + target.offsetWidth > width ? Math.max(0, left + 40 - target.offsetWidth) : place}px`;
    }

    let plot = draw();
    const again = (): void => {
      plot.destroy();
      plot = draw();
    };
    const resized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", again);
    return () => {
      resized.disconnect();
      dark.removeEventListener("change", again);
      plot.destroy();
    };
  }, [times, series, behind]);

  if (shown.length === 0) return <p class="empty">{empty}</p>;
  return (
    <figure class="chart">
      {(shown.length > 1 || kind === "bars") && (
        <ul class="legend" aria-hidden="true">
          {drawn.map(({ name, color }) => (
            <li key={name}>
              <i class={color.slice(2)} />
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

/** A series of zeros is not drawn: it would show at the edges of the one that covers it. */
function stacked(series: readonly Series[]): { color: string; tops: (number | null)[] }[] {
  let below: number[] = [];
  return series.map(({ color, values }) => {
    below = values.map((value, index) => value + (below[index] ?? 0));
    const tops = below.map((top, index) => (values[index] ? top : null));
    return { color, tops };
  });
}
