/** Compares the alert rules, their tests, the runbook, the dashboard and the metrics. */
import { readFileSync } from "node:fs";
import { expect } from "chai";
import { SETTINGS } from "../../facilitator/src/config";
import { createMetrics, type MetricFacts } from "../../facilitator/src/telemetry/metrics";
import { UNUSED_GAUGES } from "./support/gauges";

const read = (file: string): string => readFileSync(file, "utf8");
const rules = read("facilitator/monitoring/alerts.yaml");
const tests = read("facilitator/monitoring/alerts.test.yaml");
const runbook = read("docs/operators/runbook.md");
const objectives = read("docs/operators/watch.md");
const dashboard = read("facilitator/monitoring/dashboard.json");

const namesIn = (text: string, pattern: RegExp): string[] => [...text.matchAll(pattern)].map(([, name = ""]) => name);

const alerts = namesIn(rules, /^\s+- alert: (\w+)$/gm);

describe("agreement > alerts", () => {
  let metrics: readonly MetricFacts[] = [];
  let exported = "";
  before(async () => {
    const all = createMetrics();
    all.watch(UNUSED_GAUGES);
    metrics = all.list();
    exported = await all.text();
    all.close();
  });

  it("each alert has one entry in the runbook, which says what it means, what to look at and what to do", () => {
    expect(alerts.length).to.be.greaterThan(20);
    const entries = runbook.split(/^## /m).slice(1);
    expect(entries.map((entry) => entry.split("\n")[0])).to.deep.equal(alerts);
    for (const entry of entries)
      for (const part of ["**Means.**", "**Look at.**", "**Do.**"]) expect(entry).to.contain(part);
    const links = namesIn(rules, /runbook_url: '\{\{ \$externalLabels\.runbook \}\}#(\w+)'$/gm);
    expect(links).to.deep.equal(alerts.map((name) => name.toLowerCase()));
  });

  it("each alert is seen to fire and to stay quiet", () => {
    const outcomes = namesIn(tests, /alertname: (\w+\n\s+exp_alerts:(?: \[\])?)$/gm);
    for (const name of alerts) {
      const own = outcomes.filter((outcome) => outcome.startsWith(`${name}\n`)).map((one) => one.endsWith("[]"));
      expect([...new Set(own)].sort(), name).to.deep.equal([false, true]);
    }
  });

  it("the page of objectives lists the alerts that protect them", () => {
    const burning = alerts.filter((name) => name.includes("Burn"));
    expect(namesIn(objectives, /^\| `(\w+)` \| \w+ \| above/gm)).to.deep.equal(burning);
  });

  it("the runbook names only settings that exist", () => {
    const known = new Set<string>(Object.values(SETTINGS).map(({ env }) => env));
    for (const name of namesIn(runbook, /`([A-Z]+_[A-Z_]+)`/g)) expect(known.has(name), name).to.equal(true);
  });

  for (const [file, text] of [
    ["alerts.yaml", rules],
    ["dashboard.json", dashboard],
  ] as const) {
    it(`${file} asks only for metrics, labels and buckets that exist`, () => {
      const asked = [...text.matchAll(/\b((?:turnpike|process|nodejs)_[a-z0-9_]+)(?:\{([^}]*)\})?/g)];
      expect(asked.length).to.be.greaterThan(20);
      for (const [, name = "", selector = ""] of asked) {
        const metric = metrics.find((one) => [one.name, ...partsOf(one.name)].includes(name));
        expect(metric, `${name} is a metric`).not.to.equal(undefined);
        for (const [, label = "", value = ""] of selector.matchAll(/(\w+)=~?\\?"([^"\\]*)/g)) {
          expect([...(metric?.labels ?? []), "le", "job"], `${name}{${label}}`).to.include(label);
          if (label === "le") expect(exported).to.match(new RegExp(`^${name}\\{.*le="${value}"`, "m"));
        }
      }
    });
  }

  it("the dashboard is one that Grafana can read: its panels have ids, places and queries of their own", () => {
    const { uid, panels } = JSON.parse(dashboard) as {
      uid: string;
      panels: { id: number; type: string; title: string; targets?: { expr: string }[] }[];
    };
    expect(uid).to.equal("turnpike");
    expect(new Set(panels.map(({ id }) => id)).size).to.equal(panels.length);
    for (const { type, title, targets = [] } of panels) expect(targets.length > 0, title).to.equal(type !== "row");
  });
});

const partsOf = (name: string): string[] => ["_bucket", "_count", "_sum"].map((part) => name + part);
