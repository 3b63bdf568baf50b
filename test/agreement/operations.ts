import { readFileSync } from "node:fs";
import { expect } from "chai";
import { createMetrics } from "../../facilitator/src/metrics";
import { settingsText } from "../../facilitator/src/settings-text";

const read = (file: string): string => readFileSync(file, "utf8");

describe("agreement > operations", () => {
  it("docs/operations/metrics.md lists every metric with its labels, and no other", () => {
    const source = read("facilitator/src/metrics.ts");
    const measured = [...source.matchAll(/"(turnpike_[a-z_]+[a-z])"/g)].map(([, name]) => name ?? "");
    const listed = [...read("docs/operations/metrics.md").matchAll(/^\| `(turnpike_\w+)` \|/gm)].map(
      ([, name]) => name,
    );
    expect(listed.sort()).to.deep.equal(measured.sort());
  });

  it("what is measured is told under those names", async () => {
    const metrics = createMetrics();
    metrics.renewals.inc({ outcome: "renewed" });
    expect(await metrics.text()).to.contain('turnpike_renewals_total{outcome="renewed"} 1');
    metrics.close();
  });

  it("facilitator/settings.env.example is the settings' own table", () => {
    expect(read("facilitator/settings.env.example")).to.equal(settingsText());
  });

  it("the image runs the commands that there are, in the roles that there are", () => {
    const commands = [...read("facilitator/src/commands/index.ts").matchAll(/\.command\("(\w+)"/g)].map(
      ([, name]) => name,
    );
    const page = read("docs/operations/run.md");
    for (const name of commands) expect(page, `${name} is told`).to.match(new RegExp(`^\\| \`${name}\\b`, "m"));
    const roles = [...read("compose.yaml").matchAll(/--roles", "([a-z,]+)"/g)].flatMap(
      ([, list]) => list?.split(",") ?? [],
    );
    expect([...new Set(roles)].sort()).to.deep.equal(["api", "indexer", "relayer", "renewals", "webhooks"]);
  });
});
