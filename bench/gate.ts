// Measures the cost of a gate: every row of its speed goals, on a real chain with a subscriber. Ungated servers and the
// reference packages run alongside. The load runs in this process, the servers in another. Figures "per core" use the
// server process's own CPU time. Prints a table and one JSON line per figure.
// Run: npm run bench:gate [-- ROW ...] [--profile FOLDER]; the rows are subscriber, 402, proof, metered, reference.

import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { parseArgs } from "node:util";
import type { SupportedWire } from "turnpike/facilitator";
import {
  checksum,
  encodePaymentProof,
  type Hex,
  issueMemo,
  proofDigest,
  randomRef,
  sha256,
  toBase64Url,
  utf8ToBytes,
} from "turnpike/protocol";
import { Secret } from "../facilitator/src/config/setting";
import { digestSigner } from "../facilitator/src/relayer/signer";
import { bundled } from "../test/support/bundled";
import { testKey } from "../test/support/chain";
import { addressOf, closeServer, keyOf, listen, SUPPORTED } from "../test/support/gate";
import { type SubscriptionWorld, startSubscriptionWorld } from "../test/support/subscriptions";
import { type Loaded, load } from "./gate-load";
import type { Assignment } from "./gate-server";

interface Figure {
  readonly figure: string;
  readonly value: number;
  readonly goal: number | null;
}
type Measured = Loaded & { readonly perSec: number; readonly cpuUs: number };

const PUBLIC_URL = "https://api.example";
const SECRET = "a secret of this measurement, long enough";
const REFERENCES = path.resolve("test/interop/package.json");
const MEASURE_MS = 1_500;
const WARM_MS = 700;
const CONNECTIONS = 16;
const SUBSCRIBERS = 8;
/** Microseconds of CPU that a gate may add to a subscriber's request. */
const ADDED_GOALS: Readonly<Record<string, number>> = { hono: 20, node: 10 };
const ROWS = ["subscriber", "402", "proof", "metered", "reference"] as const;
const NOTHING = {};
const nothing = () => NOTHING;

const { values: flags, positionals } = parseArgs({
  options: { profile: { type: "string" } },
  allowPositionals: true,
});
const isWanted = (row: (typeof ROWS)[number]): boolean => positionals.length === 0 || positionals.includes(row);

async function main(): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-bench-gate-"));
  // As published: a TypeScript loader in the process would slow down every event.
  const program = bundled(path.join(__dirname, "gate-server.ts"), folder);
  const world = await startSubscriptionWorld();
  const answers = answersOf(world);
  const facilitator = createServer((request, response) => {
    request.resume().on("end", () => {
      response.writeHead(200, { "Content-Type": "application/json" }).end(answers[request.url ?? ""] ?? "{}");
    });
  });
  const facilitatorUrl = await listen(facilitator);
  const running: ChildProcess[] = [];
  const start = async (more: Partial<Assignment>): Promise<Servers> => {
    const child = fork(program, {
      execArgv: flags.profile ? ["--cpu-prof", "--cpu-prof-dir", flags.profile] : [],
      serialization: "advanced",
    });
    running.push(child);
    const options = { ...optionsOf(world, facilitatorUrl), folder };
    child.send({ options, planId: world.planId, facilitatorUrl, references: undefined, ...more });
    const { urls } = await nextMessage<{ urls: Record<string, string> }>(child);
    return { child, urls };
  };
  try {
    const ids: string[] = [];
    for (let i = 0; i < SUBSCRIBERS; i++) {
      ids.push((await world.subscribe(`subscriber ${i}`, { maxOverage: 10n ** 12n })).id);
    }
    const figures = await measureAll({ start, world, ids });
    print(figures);
  } finally {
    for (const child of running) child.kill("SIGKILL");
    await closeServer(facilitator);
    await world.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

function optionsOf(
  { contracts, rpc, treasury, chain }: SubscriptionWorld,
  facilitatorUrl: string,
): Assignment["options"] {
  return {
    network: `local-${chain.chainId}`,
    token: { address: contracts.token, name: contracts.tokenName, version: contracts.tokenVersion },
    payTo: treasury,
    facilitator: { url: facilitatorUrl, signers: [addressOf("facilitator")] },
    secret: SECRET,
    publicUrl: PUBLIC_URL,
    rpcUrl: rpc.url,
    turnpike: contracts.turnpike,
    operatorKey: testKey("provider") as Hex,
  } as never;
}

/** What the paths of a Facilitator answer here. */
function answersOf({ contracts, chain }: SubscriptionWorld): Record<string, string> {
  const { token: address, tokenName: name, tokenVersion: version, turnpike } = contracts;
  const supported: SupportedWire = {
    ...SUPPORTED,
    kinds: [{ x402Version: 2, scheme: "exact", network: `eip155:${chain.chainId}` }],
    network: `local-${chain.chainId}`,
    chainId: chain.chainId,
    turnpike,
    tokens: [{ address, name, version, decimals: 6 }],
    paymentGrants: false,
  };
  return { "/proofs/verify": '{"valid":true}', "/supported": JSON.stringify(supported) };
}

interface Servers {
  readonly child: ChildProcess;
  readonly urls: Record<string, string>;
}

interface Bench {
  readonly start: (more: Partial<Assignment>) => Promise<Servers>;
  readonly world: SubscriptionWorld;
  readonly ids: readonly string[];
}

async function measureAll({ start, world, ids }: Bench): Promise<Figure[]> {
  const figures: Figure[] = [];
  let { child, urls } = await start({});
  const publish = (figure: string, value: number, goal: number | null = null) =>
    figures.push({ figure, value: Math.round(value * 1_000) / 1_000, goal });
  const measure = async (name: string, expect: number, next: () => Record<string, string> | undefined = nothing) => {
    const url = urls[name] as string;
    await load({ url, next, expect, connections: CONNECTIONS, forMs: WARM_MS });
    const before = await cpuOf(child);
    const loaded = await load({ url, next, expect, connections: CONNECTIONS, forMs: MEASURE_MS });
    const cpuUs = ((await cpuOf(child)) - before) / loaded.count;
    return { ...loaded, perSec: loaded.count / loaded.seconds, cpuUs };
  };
  /** Runs each twice, in turns, and keeps the better result: other load on the machine affects both. */
  const compare = async (first: () => Promise<Measured>, second: () => Promise<Measured>) => {
    const [a, b, c, d] = [await first(), await second(), await first(), await second()];
    return [better(a, c), better(b, d)] as const;
  };

  let turn = 0;
  const subscribers = ids.map((id) => ({ "X-Service-Sub": id }));
  const subscriber = () => subscribers[turn++ % subscribers.length];
  for (const name of isWanted("subscriber") ? ["hono", "node", "express"] : []) {
    await load({ url: urls[`${name} gated`] as string, next: subscriber, expect: 200, connections: 8, forMs: WARM_MS });
    world.rpc.methods.length = 0;
    const [ungated, gated] = await compare(
      () => measure(`${name} ungated`, 200),
      () => measure(`${name} gated`, 200, subscriber),
    );
    const goal = name in ADDED_GOALS ? 0.9 : null;
    publish(`gate.subscriber.${name}.ofUngated`, gated.perSec / ungated.perSec, goal);
    publish(`gate.subscriber.${name}.cpuUsAdded`, gated.cpuUs - ungated.cpuUs, ADDED_GOALS[name]);
    publish(`gate.subscriber.${name}.perSec`, gated.perSec);
    publish(`ungated.${name}.perSec`, ungated.perSec);
    const asked = world.rpc.methods.filter((method) => method === "eth_call").length;
    publish(`gate.subscriber.${name}.rpcCallsPerRequest`, asked / (gated.count * 2), 0);
  }

  if (isWanted("402")) {
    const [ungatedHono, quoted] = await compare(
      () => measure("hono ungated", 200),
      () => measure("hono single", 402),
    );
    publish("gate.402.ofUngated", quoted.perSec / ungatedHono.perSec, 0.5);
    publish("gate.402.cpuUs", quoted.cpuUs, 60);
    publish("gate.402.perSec", quoted.perSec);
    const withPlan = await measure("hono gated", 402);
    publish("gate.402.withPlan.ofUngated", withPlan.perSec / ungatedHono.perSec);
  }

  for (const mode of isWanted("proof") ? ["signature", "default"] : []) {
    const proofs = proofsFor(world, mode === "signature" ? 16_000 : 6_000);
    const measured = await measure(`node proof ${mode}`, 200, () => proofs.pop());
    const dot = mode === "signature" ? "" : ".default";
    publish(`gate.proof${dot}.perSecPerCore`, 1e6 / measured.cpuUs, mode === "signature" ? 4_000 : null);
    publish(`gate.proof${dot}.perSec`, measured.perSec);
    publish(`gate.proof${dot}.p99Ms`, measured.p99Ms, mode === "signature" ? 5 : null);
  }

  if (isWanted("metered")) {
    const metered = await measure("node metered", 200, subscriber);
    publish("gate.metered.perSecPerCore", 1e6 / metered.cpuUs, 10_000);
    publish("gate.metered.perSec", metered.perSec);
    publish("gate.metered.p99Ms", metered.p99Ms);
  }

  await stop(child);
  if (!isWanted("reference")) return figures;
  if (!existsSync(path.join(path.dirname(REFERENCES), "node_modules"))) {
    console.log("Reference packages are absent: `npm run test:interop` installs them.");
    return figures;
  }
  ({ child, urls } = await start({ references: REFERENCES }));
  for (const [name, framework] of [
    ["x402-hono", "hono"],
    ["x402-express", "express"],
    ["@x402/express", "express"],
  ] as const) {
    const [ungated, measured] = await compare(
      () => measure(`reference ${framework} ungated`, 200),
      () => measure(`reference ${name}`, 402),
    );
    publish(`reference.${name}.402.perSec`, measured.perSec);
    publish(`reference.${name}.402.ofUngated`, measured.perSec / ungated.perSec);
    publish(`reference.${name}.402.cpuUs`, measured.cpuUs);
  }
  await stop(child);
  return figures;
}

const better = (a: Measured, b: Measured): Measured => (a.perSec > b.perSec ? a : b);

async function stop(child: ChildProcess): Promise<void> {
  const ended = once(child, "exit");
  child.send("stop");
  await ended;
}

async function cpuOf(child: ChildProcess): Promise<number> {
  child.send("cpu");
  const { cpu } = await nextMessage<{ cpu: NodeJS.CpuUsage }>(child);
  return cpu.user + cpu.system;
}

async function nextMessage<T>(child: ChildProcess): Promise<T> {
  const waiting = new AbortController();
  const ended = once(child, "exit", { signal: waiting.signal }).then(() => {
    throw new TypeError("the servers ended");
  });
  try {
    const [message] = await Promise.race([once(child, "message", { signal: waiting.signal }), ended]);
    return message as T;
  } finally {
    waiting.abort();
    ended.catch(() => undefined);
  }
}

/** Creates proofs of distinct payments, each worth one request, as gate and Facilitator would. */
function proofsFor({ contracts, treasury, chain }: SubscriptionWorld, count: number): Record<string, string>[] {
  const secret = utf8ToBytes(SECRET);
  const key = { id: toBase64Url(sha256(secret)).slice(0, 8), secret };
  const { signDigest } = digestSigner(new Secret(keyOf("facilitator")));
  const nowSec = Math.floor(Date.now() / 1_000);
  return Array.from({ length: count }, (_, i) => {
    const facts = { resource: `${PUBLIC_URL}/paid`, amount: 500_000n, token: contracts.token, payTo: treasury };
    const network = `local-${chain.chainId}`;
    const memo = issueMemo(key, { method: "GET", network, ...facts }, randomRef(), nowSec + 600);
    const unsigned = {
      version: "1" as const,
      network,
      ...facts,
      memo,
      payer: checksum(`0x${i.toString(16).padStart(40, "0")}`),
      transaction: `0x${"cd".repeat(32)}` as Hex,
      blockNumber: 7,
      settledAt: nowSec - 60,
      expiresAt: nowSec + 86_400,
      facilitator: addressOf("facilitator"),
    };
    const proof = { ...unsigned, signature: signDigest(proofDigest(unsigned, chain.chainId)) };
    return { "X-PAYMENT": encodePaymentProof(proof) };
  });
}

function print(figures: readonly Figure[]): void {
  for (const { figure, value, goal } of figures) {
    console.log(`${figure.padEnd(46)}${String(value).padStart(12)}${String(goal ?? "").padStart(10)}`);
  }
  for (const figure of figures) console.log(JSON.stringify(figure));
  const isMissed = ({ figure, value, goal }: Figure) =>
    goal !== null && (/Us|Ms|Calls/.test(figure) ? value > goal : value < goal);
  process.exitCode = figures.some(isMissed) ? 1 : 0;
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
