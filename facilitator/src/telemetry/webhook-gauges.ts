import { Gauge, type Registry } from "prom-client";
import { inTime } from "./gauge-answers";

export interface BacklogGauge {
  readonly endpoint: string;
  readonly pending: number;
  readonly oldestSec: number;
}

export function watchBacklogs(ask: () => Promise<readonly BacklogGauge[]>, registers: Registry[]): void {
  const backlogs = inTime(ask);
  const backlogGauge = (name: string, help: string, figureOf: (backlog: BacklogGauge) => number): void => {
    new Gauge({
      name,
      help,
      labelNames: ["endpoint"],
      registers,
      async collect() {
        const found = (await backlogs()) ?? [];
        this.reset();
        for (const backlog of found) this.set({ endpoint: backlog.endpoint }, figureOf(backlog));
      },
    });
  };
  backlogGauge(
    "turnpike_webhook_endpoint_pending",
    "Deliveries that wait for each of the 50 endpoints with the oldest ones.",
    ({ pending }) => pending,
  );
  backlogGauge(
    "turnpike_webhook_endpoint_oldest_seconds",
    "Age of the oldest delivery that waits for each of these endpoints.",
    ({ oldestSec }) => oldestSec,
  );
}
