/** HA24: a gate process is killed at every step of both orders of settling, and another one takes over its claims. */
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
  PAY_TO,
  quoteOf,
  RESERVING,
  type SettleBody,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  TOKEN,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import type { SettlingGate } from "../support/settling-gate";
import { v1Headers } from "../support/standard";

const ROOT = path.join(__dirname, "../../../..");
const SHIFTED_CLOCK = path.join(ROOT, "test/facilitator/support/shifted-clock.cjs");
/** A claim's lease is over for a process whose clock is this far ahead. */
const PAST_LEASE_MS = 61_000;

/** What the dead process had reached, and how often the handler runs in all. */
const CASES = [
  { target: "/after?claimed", runs: 1 },
  { target: "/after?running", runs: 2 },
  { target: "/after?stored", runs: 1 },
  { target: "/after?settled", runs: 1 },
  { target: "/after?answered", runs: 1 },
  { target: "/before?claimed", runs: 1 },
  { target: "/before?settled", runs: 1 },
  { target: "/before?running", runs: 2 },
  { target: "/before?answered", runs: 1 },
] as const;

describe("a gate that is killed while it settles", function () {
  this.timeout(120_000);
  let facilitator: SmallFacilitator;
  let folder: string;
  const children: ChildProcess[] = [];

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-settle-killed-"));
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
  });
  after(async () => {
    for (const child of children) child.kill("SIGKILL");
    await facilitator.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function launch(script: string, shiftMs: number): Promise<{ child: ChildProcess; url: string }> {
    const assignment: SettlingGate = {
      folder: path.join(folder, "claims"),
      nowSec: NOW,
      facilitator: { url: facilitator.url, signers: [facilitator.signer] },
      token: { address: TOKEN, name: "Test USD", version: "1" },
      payTo: PAY_TO,
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

  it("HA24 charges nobody for nothing and serves nobody twice, at whichever step it dies", async () => {
    const script = bundled(path.join(__dirname, "../support/settling-gate.ts"), folder);
    const victim = await launch(script, 0);
    const parked = new Set<string>();
    const settled: string[] = [];
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
      await parkAt(target, "/after?stored", "/before?claimed");
      if (!settled.includes(target)) settled.push(target);
      await parkAt(target, "/after?settled", "/before?settled");
      return settle(asked);
    };
    const running = ["/ran/after?running", "/ran/before?running"];
    facilitator.held = new Promise(() => undefined);
    facilitator.holds = (asked) => {
      const isHeld = isAlive && running.includes(asked);
      if (isHeld) parked.add(asked);
      return isHeld;
    };

    const payments = await Promise.all(
      CASES.map(async ({ target, runs }) => {
        const key = { "Idempotency-Key": `the key of ${target}`.padEnd(24, ".").replaceAll(" ", "-") };
        const [entry] = (await quoteOf(`${victim.url}${target}`)).accepts;
        return { target, runs, headers: { ...key, ...(await v1Headers(entry as AcceptEntryWire)) } };
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
    await until(async () => answered.length === 2 && parked.size === CASES.length - 2);
    isAlive = false;
    victim.child.kill("SIGKILL");
    await once(victim.child, "exit");
    expect(answered.map(({ status }) => status)).to.deep.equal([200, 200]);

    const survivor = await launch(script, PAST_LEASE_MS);
    for (const { target, runs, headers } of payments) {
      const answer = await send(`${survivor.url}${target}`, { headers });
      expect([answer.status, answer.text], target).to.deep.equal([200, `granted ${target}`]);
      const again = await send(`${survivor.url}${target}`, { headers });
      expect([again.text, again.headers["idempotency-replayed"]], target).to.deep.equal([answer.text, "true"]);
      const { "Idempotency-Key": _key, ...bare } = headers;
      expect((await send(`${survivor.url}${target}`, { headers: bare })).json.reason, target).to.equal("already_used");
      const ran = facilitator.calls.filter(({ path: asked }) => asked === `/ran${target}`);
      expect(ran, target).to.have.length(runs);
    }
    expect([...settled].sort()).to.deep.equal(CASES.map(({ target }) => target).sort());
  });
});
