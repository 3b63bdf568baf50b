import { Controls, Download, Shown } from "../parts";
import { useRange } from "../range";
import { useGet, useRound } from "../use";
import { FailedRenewals } from "./failed-renewals";
import { FunnelReport } from "./funnel-report";

/** A gate's report is not an event: nothing signals it. */
const LOOK_MS = 10_000;

export function Funnel() {
  const { query, choices } = useRange();
  const funnel = useGet("/analytics/funnel", query, useRound(LOOK_MS));
  return (
    <>
      <Controls>
        {choices}
        <Download path="/analytics/funnel.csv" query={query} name="turnpike-lost-revenue.csv" />
      </Controls>
      <Shown of={funnel}>{(data) => <FunnelReport data={data} />}</Shown>
      <FailedRenewals query={query} />
    </>
  );
}
