/** Shows paid amounts by scheme, compared with the preceding time. */
import type { OverviewWire, VolumeWire } from "turnpike/facilitator";
import type { Query } from "../api";
import { Chart } from "../chart";
import { formatCount, toNumber } from "../format";
import { Panel, Shown } from "../parts";
import { type Range, stepsOf } from "../range";
import { SCHEME_COLORS, SCHEME_NAMES, type SchemeName } from "../schemes";
import { useGet, useMoney, useUnit } from "../use";

interface VolumeProps {
  readonly overview: OverviewWire | undefined;
  readonly query: Query;
  readonly grain: Range["grain"];
}

export function Volume({ overview, query, grain }: VolumeProps) {
  const volume = useGet("/analytics/volume", { ...query, grain });
  return (
    <Panel title="Volume">
      <Shown of={volume}>
        {(data) => (overview && hasTimeBefore(overview) ? <Compared data={data} /> : <VolumeChart data={data} />)}
      </Shown>
    </Panel>
  );
}

/** Growth is compared only with a time that has data from its first day. */
export const hasTimeBefore = ({ since, from, to, volumeBefore }: OverviewWire): boolean =>
  since !== undefined && since <= 2 * from - to && volumeBefore.count > 0;

/** Next to the preceding range of the same length. */
function Compared({ data }: { data: VolumeWire }) {
  const { from, to, token, grain } = data;
  const before = useGet("/analytics/volume", { from: 2 * from - to, to: from, token, grain });
  return <VolumeChart data={data} before={before.data} />;
}

function VolumeChart({ data, before }: { data: VolumeWire; before?: VolumeWire | undefined }) {
  const money = useMoney();
  const { sign } = useUnit()(data.token);
  const { times, placeOf, formatAt } = stepsOf(data, data.grain);
  const series = (Object.keys(SCHEME_NAMES) as SchemeName[]).map((scheme) => {
    const sums = times.map(() => ({ amount: 0n, count: 0 }));
    for (const point of data.points) {
      const sum = sums[placeOf(point.at)];
      if (point.scheme !== scheme || !sum) continue;
      sum.amount += BigInt(point.amount);
      sum.count += point.count;
    }
    return {
      name: SCHEME_NAMES[scheme],
      color: SCHEME_COLORS[scheme],
      values: sums.map(({ amount }) => toNumber(amount.toString(), data.decimals)),
      texts: sums.map(({ amount, count }) => `${money(amount.toString(), data.token)} (${formatCount(count)})`),
    };
  });
  const earlier = before && sumsBefore(before, times.length);
  return (
    <Chart
      title="Volume"
      {...(earlier && {
        behind: {
          name: "Previous period",
          color: "--ghost",
          values: earlier.map((amount) => toNumber(amount.toString(), data.decimals)),
          texts: earlier.map((amount) => money(amount.toString(), data.token)),
        },
      })}
      unit={`${sign || "token units"}, count in brackets`}
      sign={sign}
      empty="Nothing was paid in this range. A longer one may show more."
      times={times}
      series={series}
      formatAt={formatAt}
    />
  );
}

/** Returns the former range's sums of all schemes, in the steps of the range drawn over it. */
function sumsBefore(before: VolumeWire, count: number): bigint[] {
  const { placeOf } = stepsOf(before, before.grain);
  const sums = Array.from({ length: count }, () => 0n);
  for (const { at, amount } of before.points) {
    const place = placeOf(at);
    if (place >= 0 && place < count) sums[place] = (sums[place] ?? 0n) + BigInt(amount);
  }
  return sums;
}
