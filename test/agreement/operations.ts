import { readFileSync } from "node:fs";
import { expect } from "chai";
import { settingsText } from "../../facilitator/src/config/settings-text";
import { createMetrics } from "../../facilitator/src/telemetry/metrics";

const read = (file: string): string => readFileSync(file, "utf8");

describe("agreement > operations", () => {
  it("docs/operators/metrics.md lists every metric with its labels, and no other", () => {
    const source = read("facilitator/src/telemetry/metrics.ts");
    const measured = [...source.matchAll(/"(turnpike_[a-z_]+[a-z])"/g)].map(([, name]) => name ?? "");
    const listed = [...read("docs/operators/metrics.md").matchAll(/^\| `(turnpike_\w+)` \|/gm)].map(([, name]) => name);
    expect(listed.sort()).to.deep.equal(measured.sort());
  });

  it("HD6 docs/operators/metrics.md says of every metric what its own help says", async () => {
    const metrics = createMetrics();
    metrics.watch({
      lanes: () => [],
      nodes: () => [],
      isDatabaseWell: () => true,
      indexerLagBlocks: () => 0,
      indexerLagSec: () => 0,
      renewalsDue: async () => 0,
      costs: async () => [],
      webhooksPending: async () => 0,
    });
    const helps = [...(await metrics.text()).matchAll(/^# HELP (turnpike_\w+) (.+)$/gm)];
    metrics.close();
    const page = read("docs/operators/metrics.md");
    const rows = [...page.matchAll(/^\| `(turnpike_\w+)` \|[^|]*\| ([^|]+) \|/gm)];
    expect(rows.length).to.be.greaterThan(0);
    const documented = new Map(helps.map(([, name, help]) => [name, help]));
    for (const [, name, what] of rows) expect(what?.replaceAll("`", ""), name).to.equal(documented.get(name));
  });

  it("HD2 a metric that is read from the database is omitted during an outage, and the others are exported", async () => {
    const metrics = createMetrics();
    const away = () => Promise.reject(new Error("away"));
    metrics.watch({
      lanes: () => [],
      nodes: () => [],
      isDatabaseWell: () => false,
      indexerLagBlocks: () => 3,
      indexerLagSec: () => 6,
      ...{ renewalsDue: away, costs: away, webhooksPending: away },
    });
    const text = await metrics.text();
    metrics.close();
    expect(text)
      .to.match(/^turnpike_database_well 0$/m)
      .and.match(/^turnpike_indexer_lag_seconds 6$/m);
    expect(text).not.to.match(/^turnpike_(renewals_due|webhooks_pending) /m);
  });

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
