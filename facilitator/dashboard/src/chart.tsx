/** Stacked bars over time: hover tells the values, and a table behind tells them to whoever cannot see them. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { formatShort } from "./format";

export interface Series {
  readonly name: string;
  /** of the style sheet, `--s1` to `--s6` */
  readonly color: string;
  readonly values: readonly number[];
  /** as the tooltip and the table write them */
  readonly texts: readonly string[];
}

export interface ChartProps {
  readonly title: string;
  /** starts of the hours or days, unix seconds */
  readonly times: readonly number[];
  readonly series: readonly Series[];
  readonly unit: string;
  formatAt(timeSec: number): string;
}

const HEIGHT = 240;
const bars = uPlot.paths.bars?.({ size: [0.8, 40] });

export function Chart({ title, times, series, unit, formatAt }: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const shown = series.filter(({ values }) => values.some((value) => value !== 0));

  useEffect(() => {
    const element = frame.current;
    const box = tip.current;
    if (!element || !box || shown.length === 0) return;
    const style = getComputedStyle(document.documentElement);
    const color = (name: string): string => style.getPropertyValue(name).trim();
    // Half a bar of room at either end.
    const half = ((times[1] ?? 0) - (times[0] ?? 0)) / 2;
    const draw = (): uPlot => {
      const axis = { stroke: color("--faint"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
      return new uPlot(
        {
          width: element.clientWidth,
          height: HEIGHT,
          legend: { show: false },
          tzDate: (at) => uPlot.tzDate(new Date(at * 1_000), "UTC"),
          cursor: { y: false, points: { show: false } },
          scales: {
            x: { time: true, range: (_, min, max) => [min - half, max + half] },
            y: { range: (_, __, max) => [0, max * 1.05 || 1] },
          },
          axes: [axis, { ...axis, size: 56, values: (_, ticks) => ticks.map(formatShort) }],
          series: [
            {},
            // The tallest first: each later one covers the lower part of it.
            ...stacked(shown)
              .reverse()
              .map(({ color: fill }) => ({
                fill: color(fill),
                stroke: color(fill),
                width: 0,
                ...(bars && { paths: bars }),
                points: { show: false },
              })),
          ],
          hooks: { setCursor: [(plot) => point(plot, box)] },
        },
        [
          [...times],
          ...stacked(shown)
            .reverse()
            .map(({ tops }) => tops),
        ] as uPlot.AlignedData,
        element,
      );
    };

    function point(plot: uPlot, target: HTMLDivElement): void {
      const { idx, left = -1 } = plot.cursor;
      const at = idx === null || idx === undefined ? undefined : times[idx];
      target.hidden = at === undefined || left < 0;
      if (at === undefined || idx === null || idx === undefined) return;
      const lines = shown.flatMap(({ name, texts, values }) => (values[idx] ? [`${name}: ${texts[idx]}`] : []));
      target.textContent = [formatAt(at), ...(lines.length > 0 ? lines : ["nothing"])].join("\n");
      target.style.left = `${Math.min(left + 64, element?.clientWidth ? element.clientWidth - 150 : left)}px`;
    }

    let plot = draw();
    const again = (): void => {
      plot.destroy();
      plot = draw();
    };
    const resized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height: HEIGHT }));
    resized.observe(element);
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", again);
    return () => {
      resized.disconnect();
      dark.removeEventListener("change", again);
      plot.destroy();
    };
  }, [times, series]);

  if (shown.length === 0) return <p class="empty">Nothing in this range yet.</p>;
  return (
    <figure class="chart">
      <ul class="legend" aria-hidden="true">
        {shown.map(({ name, color }) => (
          <li key={name}>
            <i class={color.slice(2)} />
            {name}
          </li>
        ))}
      </ul>
      <div
        class="plot"
        ref={frame}
        role="img"
        aria-label={`${title}: ${times.length} bars; the values are in the table below`}
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
                {shown.map(({ name }) => (
                  <th key={name} scope="col" class="number">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {times.map((at, index) =>
                shown.every(({ values }) => !values[index]) ? null : (
                  <tr key={at}>
                    <th scope="row">{formatAt(at)}</th>
                    {shown.map(({ name, texts }) => (
                      <td key={name} class="number">
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

function stacked(series: readonly Series[]): { color: string; tops: number[] }[] {
  let below: number[] = [];
  return series.map(({ color, values }) => {
    below = values.map((value, index) => value + (below[index] ?? 0));
    return { color, tops: below };
  });
}
