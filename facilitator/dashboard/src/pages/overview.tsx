/** What came in, what will come in, and what was lost. */
import type { OverviewWire, VolumeWire } from "turnpike/facilitator";
import { Chart } from "../chart";
import { formatAmount, formatChange, formatCount, formatDate, formatShare, formatTime, toNumber } from "../format";
import { Choice, Download, Figure, Figures, Panel, Shown } from "../parts";
import { SCHEME_COLORS, SCHEME_NAMES, type SchemeName } from "../schemes";
import { useGet, useQueryField } from "../use";

const RANGES = { "1": "Today", "7": "7 days", "30": "30 days", "90": "90 days", "365": "1 year" };
const DAY_SEC = 86_400;

export function Overview() {
  const [days, setDays] = useQueryField("days", "30");
  const grain = Number(days) <= 7 ? "hour" : "day";
  const overview = useGet<OverviewWire>("/analytics/overview", { days });
  const volume = useGet<VolumeWire>("/analytics/volume", { days, grain });
  return (
    <>
      <div class="controls">
        <Choice label="Range" value={days} options={RANGES} onChange={setDays} />
        <Download path="/analytics/volume.csv" query={{ days, grain }} name="turnpike-volume.csv" />
      </div>
      <Shown of={overview}>{(data) => <Key data={data} />}</Shown>
      <Panel title="Volume" note="What was paid to you, by how it was paid. Times are UTC, as the chain tells them.">
        <Shown of={volume}>{(data) => <VolumeChart data={data} />}</Shown>
      </Panel>
    </>
  );
}

function Key({ data }: { data: OverviewWire }) {
  const { volume, volumeBefore, subscriptions, renewals, payments, decimals } = data;
  const change = formatChange(volume.amount, volumeBefore.amount);
  const due = renewals.renewed + renewals.pastDue;
  const tried = payments.settled + payments.failed;
  return (
    <Figures>
      <Figure
        label="Volume"
        value={formatAmount(volume.amount, decimals)}
        note={change ? `${change} against the same time before` : `${formatCount(volume.count)} payments`}
      />
      <Figure
        label="Active subscriptions"
        value={formatCount(subscriptions.active)}
        note={`${formatCount(subscriptions.created)} new, ${formatCount(subscriptions.cancelled + subscriptions.expired)} ended`}
      />
      <Figure label="Recurring" value={formatAmount(subscriptions.recurring, decimals)} note="per 30 days" />
      <Figure
        label="Renewals collected"
        value={formatShare(renewals.renewed, due) ?? "–"}
        note={due === 0 ? "none was due" : `${formatCount(renewals.renewed)} of ${formatCount(due)} that were due`}
      />
      <Figure
        label="One-time payments settled"
        value={formatShare(payments.settled, tried) ?? "–"}
        note={tried === 0 ? "none was tried" : `${formatCount(payments.settled)} of ${formatCount(tried)}`}
      />
    </Figures>
  );
}

function VolumeChart({ data }: { data: VolumeWire }) {
  const step = data.grain === "hour" ? 3_600 : DAY_SEC;
  const times = Array.from({ length: (data.to - data.from) / step }, (_, index) => data.from + index * step);
  const places = new Map(times.map((at, index) => [at, index]));
  const series = (Object.keys(SCHEME_NAMES) as SchemeName[]).map((scheme) => {
    const values = times.map(() => 0);
    const texts = times.map(() => "0");
    for (const point of data.points) {
      const place = places.get(point.at);
      if (point.scheme !== scheme || place === undefined) continue;
      values[place] = toNumber(point.amount, data.decimals);
      texts[place] = `${formatAmount(point.amount, data.decimals)} (${formatCount(point.count)})`;
    }
    return { name: SCHEME_NAMES[scheme], color: SCHEME_COLORS[scheme], values, texts };
  });
  return (
    <Chart
      title="Volume"
      unit="token units"
      times={times}
      series={series}
      formatAt={data.grain === "hour" ? formatTime : formatDate}
    />
  );
}
