/** What several views of the funnel read from its figures. */
import type { FunnelWire } from "turnpike/facilitator";

export type Step = FunnelWire["steps"][number];

export interface ViewProps {
  readonly data: FunnelWire;
}

export const stepOf = ({ steps }: FunnelWire, step: Step["step"]): Step | undefined =>
  steps.find((one) => one.step === step);

/** Returns whether a gate reported anything in the range. */
export const hasGateReports = (data: FunnelWire): boolean =>
  (stepOf(data, "asked")?.count ?? 0) > 0 ||
  (stepOf(data, "paid")?.count ?? 0) > 0 ||
  data.bySubscription.count > 0 ||
  data.turnedAway.length > 0;
