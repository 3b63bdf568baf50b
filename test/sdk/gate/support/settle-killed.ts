/** HA24: a gate process is killed at every step of both orders of settling, and another one takes over its claims. */
// Of every claim store: several gates have one store, and clocks that need not agree.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import type { AcceptEntryWire } from "turnpike/protocol";
import { bundled } from "../../../support/bundled";
import {
  type Answer,
  NOW,
  OVER_PERMIT2,
  PAY_TO,
  quoteOf,
  type SettleBody,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  TOKEN,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import type { ClaimPlace } from "./claim-place";
import { paying } from "./mpp";
import { permit2Headers } from "./permit2";
import type { SettlingGate } from "./settling-gate";
import { type Accepted, requiredIn, v1Headers } from "./standard";

const ROOT = path.join(__dirname, "../../../..");
const SHIFTED_CLOCK = path.join(ROOT, "test/facilitator/support/shifted-clock.cjs");

async function exactHeaders(url: string): Promise<Record<string, string>> {
  return v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire);
}

async function uptoHeaders(url: string): Promise<Record<string, string>> {
  return permit2Headers(requiredIn(await send(url)).accepts[0] as Accepted);
}

/** What the dead process had reached, and how often the handler runs in all. */
const CASES = [
  { target: "/after?claimed", runs: 1 },
  { target: "/after?running", runs: 2 },
  { target: "/after?stored", runs: 1 },
  { target: "/after?settled", runs: 1 },
  { target: "/after?answered", runs: 1 },
  { target: "/upto?running", runs: 2 },
  { target: "/upto?stored", runs: 1 },
  { target: "/upto?settled", runs: 1 },
  { target: "/upto?answered", runs: 1 },
  { target: "/before?claimed", runs: 1 },
  { target: "/before?settled", runs: 1 },
  { target: "/before?running", runs: 2 },
  { target: "/before?answered", runs: 1 },
] as const;

/** What a gate answers again that cannot reach its Facilitator. */
const REPLAYED = /answered$/;

interface Sold {
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
}

export interface KilledGates {
  /** @param folder of the test's own */
  place(folder: string): ClaimPlace;
  /** how far the clock is ahead, of the gate that is killed and of the other one */
  readonly shiftsMs: readonly [victim: number, survivor: number];
  /** pays by MPP, which sells no maximum */
  readonly byMpp?: boolean;
  /** Ends the leases of the dead gate, where the survivor's clock does not. */
  lapse?(): Promise<void>;
}

export function testKilledWhileSettling({ place, shiftsMs, byMpp = false, lapse }: KilledGates): void {
  let facilitator: SmallFacilitator;
  let folder: string;
  const children: ChildProcess[] = [];
  const cases = CASES.filter(({ target }) => !(byMpp && target.startsWith("/upto")));
  const answeredAtOnce = cases.filter(({ target }) => target.endsWith("answered")).length;

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-settle-killed-"));
    facilitator = await startSmallFacilitator();
    facilitator.supported = OVER_PERMIT2;
  });
  after(async () => {
    for (const child of children) child.kill("SIGKILL");
    await facilitator.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function launch(script: string, shiftMs: number): Promise<{ child: ChildProcess; url: string }> {
    const assignment: SettlingGate = {
      place: place(folder),
      nowSec: NOW,
      facilitator: { url: facilitator.url, signers: [facilitator.signer] },
      token: { address: TOKEN, name: "Test USD", version: "1" },
      payTo: PAY_TO,
      ...(byMpp && { mpp: "Authorization" }),
    };
    const child = spawn(process.execPath, ["-r", SHIFTED_CLOCK, script, JSON.stringify(assignment)], {
      cwd: ROOT,
      env: { ...process.env, CLOCK_SHIFT_MS: String(shiftMs) },
      stdio: ["ignore", "pipe", "inherit"],
    });
    children.push(child);
    const [line] = (await once(child.stdout as NodeJS.ReadableStream, "data")) as [Buffer];
    return { child, url: line.toString().trim() };
  }

  const isChallenged = ({ headers }: Answer): boolean => headers["www-authenticate"] !== undefined;

  /** Clients of MPP sign again for every challenge, and money may have moved. */
  async function expectNoChallenges(url: string, payments: readonly Sold[]): Promise<void> {
    facilitator.mode = "down";
    for (const { target, headers } of payments) {
      const answer = await send(`${url}${target}`, { headers });
      expect([answer.status, isChallenged(answer)], target).to.deep.equal([REPLAYED.test(target) ? 200 : 503, false]);
    }
    facilitator.mode = "valid";
  }

  it("HA24 HU6 charges nobody for nothing and serves nobody twice, at whichever step a gate dies", async () => {
    const script = bundled(path.join(__dirname, "settling-gate.ts"), folder);
    const victim = await launch(script, shiftsMs[0]);
    const parked = new Set<string>();
    const settled: string[] = [];
    const amounts = new Map<string, (string | undefined)[]>();
    let isAlive = true;
    const parkAt = async (target: string, ...targets: string[]): Promise<void> => {
      if (!isAlive || !targets.includes(target)) return;
      parked.add(target);
      await new Promise(() => undefined);
    };
    const targetOf = ({ grant }: SettleBody) => String(grant?.resource).replace("https://api.example", "");
    const { verify, settle } = facilitator;
    facilitator.verify = async (asked) => {
      await parkAt(targetOf(asked), "/after?claimed");
      return verify(asked);
    };
    facilitator.settle = async (asked) => {
      const target = targetOf(asked);
      amounts.set(target, [...(amounts.get(target) ?? []), asked.paymentRequirements.amount]);
      await parkAt(target, "/after?stored", "/upto?stored", "/before?claimed");
      if (!settled.includes(target)) settled.push(target);
      await parkAt(target, "/after?settled", "/upto?settled", "/before?settled");
      return settle(asked);
    };
    const running = ["/ran/after?running", "/ran/upto?running", "/ran/before?running"];
    facilitator.held = new Promise(() => undefined);
    facilitator.holds = (asked) => {
      const isHeld = isAlive && running.includes(asked);
      if (isHeld) parked.add(asked);
      return isHeld;
    };

    const payments = await Promise.all(
      cases.map(async ({ target, runs }) => {
        const key = { "Idempotency-Key": `the key of ${target}`.padEnd(24, ".").replaceAll(" ", "-") };
        if (byMpp) return { target, runs, headers: await paying(`${victim.url}${target}`, { headers: key }) };
        const paid = await (target.startsWith("/upto") ? uptoHeaders : exactHeaders)(`${victim.url}${target}`);
        return { target, runs, headers: { ...key, ...paid } };
      }),
    );
    const answered: Answer[] = [];
    for (const { target, headers } of payments) {
      const answer = send(`${victim.url}${target}`, { headers });
      answer.then(
        (each) => answered.push(each),
        () => undefined,
      );
    }
    await until(async () => answered.length === answeredAtOnce && parked.size === cases.length - answeredAtOnce);
    isAlive = false;
    victim.child.kill("SIGKILL");
    await once(victim.child, "exit");
    expect(answered.map(({ status }) => status)).to.deep.equal(Array(answeredAtOnce).fill(200));

    const survivor = await launch(script, shiftsMs[1]);
    await lapse?.();
    if (byMpp) await expectNoChallenges(survivor.url, payments);
    for (const { target, runs, headers } of payments) {
      const answer = await send(`${survivor.url}${target}`, { headers });
      expect([answer.status, answer.text], target).to.deep.equal([200, `granted ${target}`]);
      const again = await send(`${survivor.url}${target}`, { headers });
      expect([again.text, again.headers["idempotency-replayed"]], target).to.deep.equal([answer.text, "true"]);
      const { "Idempotency-Key": _key, ...bare } = headers;
      const copy = await send(`${survivor.url}${target}`, { headers: bare });
      const refused = [byMpp ? 409 : 402, "already_used", false];
      expect([copy.status, copy.json.reason, isChallenged(copy)], target).to.deep.equal(refused);
      const ran = facilitator.calls.filter(({ path: asked }) => asked === `/ran${target}`);
      expect(ran, target).to.have.length(runs);
    }
    expect([...settled].sort()).to.deep.equal(cases.map(({ target }) => target).sort());
    for (const [target, asked] of amounts) expect(new Set(asked), `${target}: ${asked}`).to.have.property("size", 1);
    if (byMpp) return;
    expect(amounts.get("/upto?stored"), "asked by both processes").to.deep.equal(
      Array(2).fill(String(victim.child.pid)),
    );
  });
}
