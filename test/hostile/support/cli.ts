/**
 * `npm run hostile -- [--client <module> | --server <url> ... [--liar <port>]] [--only <id>] [--json]`: puts any client, or any gated URL,
 * through the battery and prints what it did. A report: it ends with 0 whatever it finds, and with 1 only where the client
 * cannot pay an honest gate, or the server asks nobody to pay.
 */
import { resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import type { Hex } from "turnpike/protocol";
import { tryAnswers } from "./answers";
import { CASES, CONTROL, type Result, trialsOf, tryCase } from "./battery";
import type { HostileClient } from "./play";
import { type ReplayResult, startLiar, tryLies, tryReplays } from "./replays";
import { asksForPayment, type ServerResult, tryServer } from "./server";

const OWN = resolve(__dirname, "clients/turnpike.ts");

async function load(module: string): Promise<HostileClient> {
  const path = /^[./]/.test(module) ? pathToFileURL(resolve(module)).href : module;
  const loaded = (module.endsWith(".ts") ? require(resolve(module)) : await import(path)) as HostileClient & {
    default?: HostileClient;
  };
  const client = typeof loaded.pay === "function" ? loaded : loaded.default;
  if (typeof client?.pay !== "function") throw new TypeError(`${module} exports no function pay(url, options)`);
  return client;
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      client: { type: "string", default: OWN },
      server: { type: "string", multiple: true },
      liar: { type: "string" },
      only: { type: "string" },
      json: { type: "boolean" },
    },
  });
  const [server, ...others] = values.server ?? [];
  if (server !== undefined) {
    const { only, json: isJson = false, liar } = values;
    return attack([server, ...others], { only, isJson, ...(liar !== undefined && { liarPort: Number(liar) }) });
  }
  const client = await load(values.client);
  const say = (line: string) => !values.json && process.stdout.write(`${line}\n`);
  say(`Client: ${client.name ?? values.client}\n`);
  const results: Result[] = [];
  for (const hostile of [CONTROL, ...CASES]) {
    if (values.only && hostile !== CONTROL && !hostile.id.startsWith(values.only)) continue;
    for (const dialect of trialsOf(hostile, client)) {
      const result = await tryCase(hostile, client, dialect);
      results.push(result);
      say(`${result.kind === "safe" ? "ok    " : result.kind.toUpperCase().padEnd(6)} ${result.id} (${dialect})`);
      say(`       does: ${hostile.does}`);
      say(`       safe: ${hostile.safeResult}`);
      say(`       saw:  ${result.saw}\n`);
    }
  }
  const count = (kind: Result["kind"]) => results.filter((result) => result.kind === kind).length;
  const figures = { safe: count("safe"), unsafe: count("unsafe"), notApplicable: count("not applicable") };
  say(`${figures.safe} safe, ${figures.unsafe} unsafe, ${figures.notApplicable} not applicable`);
  if (values.json) process.stdout.write(`${JSON.stringify({ client: client.name, ...figures, results })}\n`);
  const isHonest = results.filter(({ id }) => id === CONTROL.id).every(({ kind }) => kind === "safe");
  if (!isHonest) say("The client could not pay an honest gate: what it did not sign elsewhere proves nothing.");
  return isHonest ? 0 : 1;
}

interface Attack {
  readonly only: string | undefined;
  readonly isJson: boolean;
  /** where the Facilitator that lies is to listen */
  readonly liarPort?: number;
}

async function attack(urls: readonly [string, ...string[]], { only, isJson, liarPort }: Attack): Promise<number> {
  const say = (line: string) => !isJson && process.stdout.write(`${line}\n`);
  const [url] = urls;
  say(`Server: ${urls.join(", ")}\n`);
  const liar = liarPort === undefined ? undefined : await startLiar(liarPort);
  if (!(await asksForPayment(url))) {
    say("It asks nobody to pay: what it serves proves nothing.");
    return 1;
  }
  const results: (ServerResult | ReplayResult)[] = [];
  const add = (result: ServerResult | ReplayResult) => {
    results.push(result);
    const status = "status" in result ? `${result.status ?? "closed"} (${result.saw})` : result.saw;
    say(`${result.kind === "safe" ? "ok    " : "UNSAFE"} ${result.id}: ${status}`);
  };
  const { HOSTILE_KEY: key } = process.env;
  if (liar) for await (const result of tryLies(url)) add(result);
  else for await (const result of tryServer(url, only)) add(result);
  if (key !== undefined) {
    for await (const result of tryReplays(urls, key as Hex, only)) add(result);
    for await (const result of tryAnswers(url, key as Hex, only)) add(result);
  }
  await liar?.stop();
  const unsafe = results.filter(({ kind }) => kind === "unsafe").length;
  say(`\n${results.length - unsafe} safe, ${unsafe} unsafe`);
  if (isJson) process.stdout.write(`${JSON.stringify({ server: urls, unsafe, results })}\n`);
  return 0;
}

main().then(
  (code) => process.exit(code),
  (error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  },
);
