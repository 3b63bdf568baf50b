import { readFileSync } from "node:fs";
import { expect } from "chai";
import { settingsText } from "../../facilitator/src/config/settings-text";
import { createMetrics } from "../../facilitator/src/telemetry/metrics";
import { UNUSED_GAUGES } from "./support/gauges";

const byName = (a: { readonly name: string }, b: { readonly name: string }): number => (a.name < b.name ? -1 : 1);

const read = (file: string): string => readFileSync(file, "utf8");

describe("agreement > operations", () => {
  it("HD6 docs/operators/watch.md lists every metric with its labels and its own help, and no other", () => {
    const metrics = createMetrics();
    metrics.watch(UNUSED_GAUGES);
    const measured = metrics.list().filter(({ name }) => name.startsWith("turnpike_"));
    metrics.close();
    const rows = [...read("docs/operators/watch.md").matchAll(/^\| `(turnpike_\w+)` \|([^|]*)\| ([^|]+) \|/gm)];
    const listed = rows.map(([, name, labels = "", what = ""]) => ({
      name: name ?? "",
      help: what.replaceAll("`", ""),
      labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label]) => label ?? ""),
    }));
    expect(listed.sort(byName)).to.deep.equal(measured.sort(byName));
  });

  it("metrics follow Prometheus' rules for names: counters end in _total, durations in _seconds", async () => {
    const metrics = createMetrics();
    metrics.watch(UNUSED_GAUGES);
    const text = await metrics.text();
    metrics.close();
    for (const [, name = "", type] of text.matchAll(/^# TYPE (turnpike_\w+) (\w+)$/gm)) {
      expect(name.endsWith("_total"), `${name} is a ${type}`).to.equal(type === "counter");
      if (type === "histogram") expect(name).to.match(/_seconds$/);
    }
    expect(text).to.match(/^# TYPE process_cpu_seconds_total counter$/m);
    expect(text).to.match(/^# TYPE nodejs_eventloop_lag_seconds gauge$/m);
  });

  it("HD2 a metric that is read from the database is omitted during an outage, and the others are exported", async () => {
    const metrics = createMetrics();
    const away = () => Promise.reject(new Error("away"));
    metrics.watch({
      ...UNUSED_GAUGES,
      isDatabaseWell: () => false,
      indexerLagSec: () => 6,
      renewalsDue: away,
      costs: away,
      webhooksPending: away,
    });
    const text = await metrics.text();
    metrics.close();
    expect(text)
      .to.match(/^turnpike_database_well 0$/m)
      .and.match(/^turnpike_indexer_lag_seconds 6$/m);
    expect(text).not.to.match(/^turnpike_(renewals_due|webhooks_pending) /m);
  });

  it("HD4 metrics are exported while the database answers nothing, and it is asked once", async () => {
    const metrics = createMetrics();
    let asked = 0;
    const silent = () => {
      asked += 1;
      return new Promise<never>(() => undefined);
    };
    const databasePool = () => ({ busy: 10, idle: 0, waiting: 7 });
    metrics.watch({ ...UNUSED_GAUGES, databasePool, renewalsDue: silent, costs: silent, webhooksPending: silent });
    for (let scrape = 0; scrape < 2; scrape++) {
      const text = await metrics.text();
      expect(text).to.match(/^turnpike_database_waiting 7$/m);
      expect(text).not.to.match(/^turnpike_(renewals_due|webhooks_pending) /m);
    }
    metrics.close();
    expect(asked, "no scrape adds statements to those that wait").to.equal(3);
  }).timeout(20_000);

  it("metrics are exported under those names", async () => {
    const metrics = createMetrics();
    metrics.renewals.inc({ outcome: "renewed" });
    expect(await metrics.text()).to.contain('turnpike_renewals_total{outcome="renewed"} 1');
    metrics.close();
  });

  it("facilitator/settings.env.example is the settings' own table", () => {
    expect(read("facilitator/settings.env.example")).to.equal(settingsText());
  });

  it("the image runs the commands that there are, in the roles that there are", () => {
    const commands = [...read("facilitator/src/cli/index.ts").matchAll(/\.command\("(\w+)"/g)].map(([, name]) => name);
    const page = read("docs/operators/run.md");
    for (const name of commands) expect(page, `${name} is documented`).to.match(new RegExp(`^\\| \`${name}\\b`, "m"));
    const roles = [...read("compose.yaml").matchAll(/^\s+ROLES: ([a-z,]+)$/gm)].flatMap(
      ([, list]) => list?.split(",") ?? [],
    );
    expect([...new Set(roles)].sort()).to.deep.equal(["api", "indexer", "relayer", "renewals", "webhooks"]);
  });
});
