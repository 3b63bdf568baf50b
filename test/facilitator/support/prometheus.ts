/** Prometheus with the alert rules that operators load, on the processes of a test. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { parse } from "yaml";
import { freePort } from "../../support/chain";
import { until } from "../../support/facilitator";

const RULES = path.resolve(__dirname, "../../../facilitator/monitoring/alerts.yaml");
const EVERY = "1s";
const PATIENCE_MS = 120_000;

export type Labels = Readonly<Record<string, string>>;

export interface Prometheus {
  /** labels of the alerts whose expression is true now, also before it has been true for long enough to fire */
  alerts(name: string): Promise<readonly Labels[]>;
  /** labels of what the expression is true for */
  query(expression: string): Promise<readonly Labels[]>;
  stop(): Promise<void>;
}

/** @param targets host and port of each process's metrics @returns undefined where Prometheus is not installed */
export async function startPrometheus(targets: readonly string[]): Promise<Prometheus | undefined> {
  if (spawnSync("prometheus", ["--version"]).status !== 0) return undefined;
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-prometheus-"));
  const config = path.join(folder, "prometheus.yaml");
  // JSON is YAML, too.
  const settings = {
    global: { scrape_interval: EVERY, scrape_timeout: EVERY, evaluation_interval: EVERY },
    rule_files: [RULES],
    scrape_configs: [{ job_name: "turnpike", static_configs: [{ targets }] }],
  };
  writeFileSync(config, JSON.stringify(settings));
  const address = `127.0.0.1:${await freePort()}`;
  const options = [`--config.file=${config}`, `--storage.tsdb.path=${folder}/data`, `--web.listen-address=${address}`];
  const child = spawn("prometheus", options, { stdio: "ignore" });
  const killAtExit = () => void child.kill("SIGKILL");
  process.once("exit", killAtExit);
  child.once("exit", () => process.off("exit", killAtExit));
  const ask = async <T>(where: string): Promise<T> => {
    const { data } = (await (await fetch(`http://${address}/api/v1/${where}`)).json()) as { data: T };
    return data;
  };
  const isReady = () =>
    fetch(`http://${address}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    );
  await until(isReady, "Prometheus is ready");
  return {
    async alerts(name) {
      const { alerts } = await ask<{ alerts: { labels: Labels }[] }>("alerts");
      return alerts.map(({ labels }) => labels).filter(({ alertname }) => alertname === name);
    },
    async query(expression) {
      const found = await ask<{ result: { metric: Labels }[] }>(`query?query=${encodeURIComponent(expression)}`);
      return found.result.map(({ metric }) => metric);
    },
    async stop() {
      await end(child);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  await ended;
}

const has = (wanted: Labels) => (labels: Labels) =>
  Object.entries(wanted).every(([label, value]) => labels[label] === value);

/** What an operator sees of the shipped rules. Without Prometheus it looks at nothing. */
export class Alerts {
  readonly #prometheus: Prometheus | undefined;

  constructor(prometheus: Prometheus | undefined) {
    this.#prometheus = prometheus;
  }

  /** Waits until the alert is there with these labels, and requires that it is of no other chain. */
  async raised(name: string, labels: Labels = {}): Promise<void> {
    const prometheus = this.#prometheus;
    if (!prometheus) return;
    const found = async () => (await prometheus.alerts(name)).some(has(labels));
    await until(found, `${name} alerts with ${JSON.stringify(labels)}`, PATIENCE_MS);
    const others = (await prometheus.alerts(name)).filter(({ chain }) => chain !== labels.chain);
    expect(others, `${name} of another chain`).to.deep.equal([]);
  }

  async over(name: string): Promise<void> {
    const prometheus = this.#prometheus;
    if (!prometheus) return;
    await until(async () => (await prometheus.alerts(name)).length === 0, `${name} is over`, PATIENCE_MS);
  }

  /** Waits until the rule's expression is true, where its limit or window is replaced by one that a test can wait for. */
  async nearly(name: string, [limit, shorter]: readonly [string, string], labels: Labels = {}): Promise<void> {
    const expression = expressionOf(name);
    expect(expression).to.contain(limit);
    await this.shows(expression.replaceAll(limit, shorter), labels);
  }

  async shows(expression: string, labels: Labels = {}): Promise<void> {
    const prometheus = this.#prometheus;
    if (!prometheus) return;
    await until(async () => (await prometheus.query(expression)).some(has(labels)), expression, PATIENCE_MS);
  }

  async stop(): Promise<void> {
    await this.#prometheus?.stop();
  }
}

function expressionOf(name: string): string {
  const { groups } = parse(readFileSync(RULES, "utf8")) as { groups: { rules: { alert?: string; expr: string }[] }[] };
  const rule = groups.flatMap(({ rules }) => rules).find(({ alert }) => alert === name);
  if (!rule) throw new Error(`there is no alert ${name}`);
  return rule.expr;
}
