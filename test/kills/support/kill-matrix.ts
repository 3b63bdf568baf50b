/**
 * HA26: at every step of both orders of settling, by x402 and by MPP, and of an automatic refund, the gate is killed, the
 * Facilitator is killed, or the chain is reorganised. Real processes: gates with one store of claims, Facilitators on one
 * PostgreSQL, a chain.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import {
  type Address,
  addressOfKey,
  encodeJsonHeader,
  type Hex,
  paymentIdOf,
  signDigest,
  typedDataDigest,
} from "turnpike/protocol";
import { settleBody } from "../../facilitator/support/payments";
import type { ServiceProcess } from "../../facilitator/support/processes";
import { refundAccountFor, signStatement } from "../../facilitator/support/refunds";
import { startTwoProcesses, type TwoProcesses } from "../../facilitator/support/two-processes";
import type { ClaimPlace } from "../../sdk/gate/support/claim-place";
import { challengeOf, credentialOf, headerOf, nonceOf } from "../../sdk/gate/support/mpp";
import type { SettlingGate } from "../../sdk/gate/support/settling-gate";
import { bundled } from "../../support/bundled";
import { testKey } from "../../support/chain";
import { type Payer, until } from "../../support/facilitator";
import { type Answer, closeServer, keyOf, listen, send } from "../../support/gate";

const ROOT = path.join(__dirname, "../../..");
const SHIFTED_CLOCK = path.join(ROOT, "test/facilitator/support/shifted-clock.cjs");
/** A claim's lease is over for a process whose clock is this far ahead. */
const PAST_LEASE_MS = 61_000;
const PRICE = 500_000n;

/** Each step, by flow: what has happened when the fault strikes. */
const STEPS = {
  after: ["claimed", "reserved", "running", "stored", "settled", "answered"],
  before: ["claimed", "settled", "running", "answered"],
  refund: ["claimed", "settled", "running", "closed", "refunded", "answered"],
} as const;
const FAULTS = ["the gate is killed", "the Facilitator is killed", "the chain is reorganised"] as const;
type Flow = keyof typeof STEPS;
const DIALECTS = ["x402", "mpp"] as const;

/** Where the gates have their claims. */
export interface KilledStore {
  /** @param folder of the test's own @param fault for which it is empty */
  place(folder: string, fault: number): ClaimPlace;
  /** Ends the leases of a dead gate, where the clock of its successor does not. */
  lapse?(): Promise<void>;
  /** default: all */
  readonly faults?: readonly (typeof FAULTS)[number][];
}

interface Cell {
  readonly flow: Flow;
  readonly dialect: (typeof DIALECTS)[number];
  readonly step: string;
  readonly target: string;
  readonly payer: Payer;
  readonly paymentId: Hex;
  readonly headers: Record<string, string>;
}

export function testKillMatrix({ place, lapse, faults = FAULTS }: KilledStore): void {
  const provider: Payer = { key: testKey("payee") as Hex, address: addressOfKey(testKey("payee") as Hex) };
  const table: string[] = [];
  const children: ChildProcess[] = [];
  let processes: TwoProcesses;
  let live: ServiceProcess;
  let account: Address;
  let refundsKey: string;
  let folder: string;
  let script: string;
  let proxy: Server;
  let proxyUrl: string;
  let cells: readonly Cell[];
  let parked: Set<string>;
  let release: () => void;
  let released: Promise<void>;
  let isStriking: boolean;
  let isAnswerLost: boolean;
  let runs: Map<string, number>;

  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), "turnpike-kills-"));
    script = bundled(path.join(ROOT, "test/sdk/gate/support/settling-gate.ts"), folder);
    processes = await startTwoProcesses("kills", async (world) => {
      const refunds = await refundAccountFor(world, provider.address, 1_000n * PRICE);
      account = refunds.account.address;
      return { ...refunds.settings, RENEWALS: "false" };
    });
    const { world, one } = processes;
    live = one;
    const { proofSigners, chainId } = await one.client.supported();
    const sign = async (data: Parameters<typeof typedDataDigest>[0]) => signDigest(typedDataDigest(data), provider.key);
    const created = await one.client.createKey({
      provider: provider.address,
      name: "gate",
      scopes: ["refunds"],
      chainId,
      sign,
      facilitator: proofSigners[0] as Address,
    });
    if (created.kind === "refused") throw created.error;
    refundsKey = created.key.key;
    const { signature, ...statement } = await signStatement(world, { provider, account, dailyCap: 1_000n * PRICE });
    const named = await one.client.nameRefundAccount({
      ...statement,
      chainId,
      facilitator: proofSigners[0] as Address,
      sign: async () => signature,
    });
    if (named.kind === "refused") throw named.error;
    proxy = createServer((request, response) => void relay(request, response));
    proxyUrl = await listen(proxy);
  });
  after(async () => {
    for (const child of children) child.kill("SIGKILL");
    await closeServer(proxy);
    await processes?.stop();
    rmSync(folder, { recursive: true, force: true });
    process.stdout.write(`${table.join("\n")}\n`);
  });

  /** Holds a cell at its step until the fault has struck. @returns whether it was held */
  async function at(cell: Cell | undefined, step: string): Promise<boolean> {
    if (!cell || cell.step !== step || !isStriking || parked.has(cell.target)) return false;
    parked.add(cell.target);
    await released;
    return true;
  }

  /** Passes the gate's requests on to the Facilitator that lives. */
  async function relay(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await text(request).catch(() => undefined);
    if (body === undefined) return;
    const asked = request.url ?? "";
    const cell = cells.find(({ target, paymentId }) => body.includes(target) || asked.includes(paymentId));
    const ran = cells.find(({ target }) => asked === `/ran${target}`);
    try {
      if (ran) {
        runs.set(ran.target, (runs.get(ran.target) ?? 0) + 1);
        await at(ran, "running");
        return void response.end();
      }
      const [before, behind] = stepsOf(asked, cell?.flow);
      await at(cell, before);
      const { authorization } = request.headers;
      const answer = await fetch(`${live.url}${asked}`, {
        method: request.method ?? "GET",
        ...(body && { body }),
        headers: { "content-type": "application/json", ...(authorization && { authorization }) },
      });
      const answered = await answer.text();
      if ((await at(cell, behind)) && isAnswerLost) throw new Error("its sender is dead");
      response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "" }).end(answered);
    } catch {
      request.socket.destroy();
    }
  }

  /** @returns the steps that a call of the gate begins and ends */
  function stepsOf(asked: string, flow: Flow | undefined): readonly [string, string] {
    if (asked === "/verify") return ["claimed", "reserved"];
    if (asked === "/settle") return flow === "after" ? ["stored", "settled"] : ["claimed", "settled"];
    return asked.endsWith("/refund") ? ["closed", "refunded"] : ["", ""];
  }

  async function launch(fault: number, shiftMs: number): Promise<{ child: ChildProcess; url: string }> {
    const { world } = processes;
    const { token: address, tokenName: tokenNameOf, tokenVersion: version } = world.contracts;
    const assignment: SettlingGate = {
      place: place(folder, fault),
      mpp: "Authorization",
      rpcUrl: world.chain.rpcUrl,
      facilitator: { url: proxyUrl, signers: [addressOfKey(testKey("proof signer") as Hex)], refundsKey },
      token: { address, name: tokenNameOf, version },
      payTo: provider.address,
    };
    const child = spawn(process.execPath, ["-r", SHIFTED_CLOCK, script, JSON.stringify(assignment)], {
      cwd: ROOT,
      env: { ...process.env, CLOCK_SHIFT_MS: String(shiftMs) },
      stdio: ["ignore", "pipe", "ignore"],
    });
    children.push(child);
    const [line] = (await once(child.stdout as NodeJS.ReadableStream, "data")) as [Buffer];
    return { child, url: line.toString().trim() };
  }

  /** @param gateUrl of the gate that challenges it */
  async function cellOf(gateUrl: string, name: string, at: Pick<Cell, "flow" | "dialect" | "step">): Promise<Cell> {
    const { world } = processes;
    const target = `/${at.flow}?${name}`;
    const key = { "Idempotency-Key": `the-key-of-${name}-in-the-matrix` };
    const payer = await world.payer(PRICE, keyOf(name) as Hex);
    if (at.dialect === "mpp") {
      const { token: address, tokenName, tokenVersion: version } = world.contracts;
      const challenge = await challengeOf(`${gateUrl}${target}`, { headers: key });
      const token = { address, name: tokenName, version };
      const headers = { ...key, ...headerOf(await credentialOf(challenge, { payer: name, token })) };
      const signed = { token: address, payer: payer.address, nonce: nonceOf(challenge) };
      return { ...at, target, payer, paymentId: paymentIdOf({ chainId: world.chain.chainId, ...signed }), headers };
    }
    const resource = `https://api.example${target}`;
    const exact = await world.signExact({ payer, payTo: provider.address, amount: PRICE, resource });
    const { paymentPayload } = settleBody(exact, 1, world.chain.chainId);
    const headers = { ...key, "X-PAYMENT": encodeJsonHeader(paymentPayload) };
    return { ...at, target, payer, paymentId: world.idOf(exact), headers };
  }

  const refusedStatus = ({ dialect }: Cell): number => (dialect === "mpp" ? 409 : 402);

  const isFinal = (cell: Cell, { status, json }: Answer): boolean =>
    cell.flow === "refund" ? status === refusedStatus(cell) && json.reason === "refunded" : status === 200;

  for (const name of faults) {
    const fault = FAULTS.indexOf(name);
    it(`HA26 ${name}: at every step the payer has the answer or the money, and the handler runs three times at most`, async () => {
      const { world, one, two } = processes;
      const rpc = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);
      live = fault === 1 ? one : two;
      cells = [];
      parked = new Set();
      runs = new Map();
      isStriking = true;
      isAnswerLost = fault === 1;
      released = new Promise((resolve) => {
        release = resolve;
      });
      let gate = await launch(fault, 0);
      const all = DIALECTS.flatMap((dialect) =>
        (Object.keys(STEPS) as Flow[]).flatMap((flow) => STEPS[flow].map((step) => ({ flow, dialect, step }))),
      );
      const named = all.map((at) => cellOf(gate.url, `${fault}-${at.dialect}-${at.flow}-${at.step}`, at));
      cells = await Promise.all(named);
      const snapshot = fault === 2 ? await rpc("evm_snapshot") : undefined;
      const answered = new Set<string>();
      for (const cell of cells) {
        send(`${gate.url}${cell.target}`, { headers: cell.headers }).then(
          () => answered.add(cell.target),
          () => undefined,
        );
      }
      const reached = ({ step, target }: Cell) => parked.has(target) || (step === "answered" && answered.has(target));
      await until(async () => cells.every(reached), "each is at its step");

      isStriking = false;
      if (fault === 0) {
        gate.child.kill("SIGKILL");
        await once(gate.child, "exit");
        gate = await launch(fault, PAST_LEASE_MS);
        await lapse?.();
      } else if (fault === 1) {
        await one.kill();
        live = two;
      } else expect(await rpc("evm_revert", [snapshot])).to.equal(true);
      release();

      // A client of MPP signs another payment for each challenge.
      const challenged = new Set<string>();
      for (const cell of cells) {
        const last = await until(async () => {
          const answer = await send(`${gate.url}${cell.target}`, { headers: cell.headers }).catch(() => undefined);
          if (cell.dialect === "mpp" && answer?.headers["www-authenticate"]) challenged.add(cell.target);
          return answer && isFinal(cell, answer) && answer;
        }, `${cell.target} has an outcome`);
        const ran = runs.get(cell.target) ?? 0;
        const again = await send(`${gate.url}${cell.target}`, { headers: cell.headers });
        const { "Idempotency-Key": _key, ...bare } = cell.headers;
        const copy = await send(`${gate.url}${cell.target}`, { headers: bare });
        expect(runs.get(cell.target) ?? 0, `${cell.target} runs for nobody else`).to.equal(ran);
        expect(ran, cell.target).to.be.within(cell.flow === "refund" && cell.step === "claimed" ? 0 : 1, 3);
        if (cell.flow === "refund") expect(again.json.reason, cell.target).to.equal("refunded");
        else
          expect([again.text, again.headers["idempotency-replayed"]], cell.target).to.deep.equal([last.text, "true"]);
        expect(copy.status, cell.target).to.equal(refusedStatus(cell));
        const paid = await until(async () => {
          const moved = (await world.transfers(provider.address)).filter(({ from }) => from === cell.payer.address);
          return moved.length > 0 && moved;
        }, `${cell.target} is charged, also after a reorganisation`);
        expect(paid, `${cell.target} is charged once`).to.have.length(1);
        const back = (await world.transfers(cell.payer.address)).filter(({ from }) => from === account);
        expect(back, `${cell.target} is refunded where it failed`).to.have.length(cell.flow === "refund" ? 1 : 0);
        table.push(
          `| ${name} | ${cell.dialect} | ${cell.flow} | ${cell.step} | runs ${ran} | charged 1, refunded ${back.length} |`,
        );
      }
      expect([...challenged]).to.deep.equal([]);
      gate.child.kill("SIGKILL");
    });
  }
}
