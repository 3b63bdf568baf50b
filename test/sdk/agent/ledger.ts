import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import type { Ledger, LedgerRecord } from "turnpike/agent";
import { fileLedger } from "turnpike/agent/file-ledger";
import { RUN_TYPESCRIPT } from "../../support/typescript";
import { startLedgerWorld, stopLedgerWorld } from "./support/ledger-world";
import { rejection } from "./support/rejection";
import { type Answer, serve } from "./support/servers";
import {
  addressOf,
  agentFor,
  type Chain,
  type FacilitatorStandIn,
  type ProviderStandIn,
  startProvider,
  TOKEN,
  testKey,
  transfersSigned,
} from "./support/world";

describe("the file ledger", () => {
  let chain: Chain;
  let facilitator: FacilitatorStandIn;
  let provider: ProviderStandIn;
  let folder: string;
  let file: string;
  const quick = { staleMs: 2_000 };

  beforeEach(async () => {
    ({ chain, facilitator, provider, folder, file } = await startLedgerWorld());
  });
  afterEach(() => stopLedgerWorld({ folder }));

  it("holds a payment whose outcome is unknown across restarts, and pays it once", async () => {
    facilitator.steps.push(...Array.from({ length: 40 }, () => "settle_then_drop" as const));
    const first = agentFor(facilitator.url, { ledger: fileLedger(file, quick), limits: { settleMs: 1_000 } });
    expect((await rejection(first.agent.pay(provider.url))).code).to.equal("PaymentPending");
    await first.agent.close();
    facilitator.steps.length = 0;

    const second = agentFor(facilitator.url, { ledger: fileLedger(file, quick) });
    const response = await second.agent.pay(provider.url);
    expect([response.status, response.receipt?.resumed]).to.deep.equal([200, true]);
    expect([transfersSigned(second), chain.transfers.length]).to.deep.equal([0, 1]);
    await second.agent.close();
  });

  it("remembers the day's budget across restarts", async () => {
    const policy = { perPayment: 500_000n, perDay: 500_000n, tokens: [TOKEN] };
    const first = agentFor(facilitator.url, { ledger: fileLedger(file, quick), policy });
    await first.agent.pay(provider.url);
    await first.agent.close();
    const second = agentFor(facilitator.url, { ledger: fileLedger(file, quick), policy });
    expect((await rejection(second.agent.pay(provider.url))).reason).to.equal("per_day");
    await second.agent.close();
  });

  it("is for its owner alone, and for one process at a time", async () => {
    const first = agentFor(facilitator.url, { ledger: fileLedger(file, quick) });
    await first.agent.pay(provider.url);
    expect((await stat(file)).mode & 0o077).to.equal(0);
    const second = agentFor(facilitator.url, { ledger: fileLedger(file, { ...quick, waitMs: 100 }) });
    expect((await rejection(second.agent.pay(provider.url))).code).to.equal("LedgerLocked");
    expect(second.signed).to.deep.equal([]);
    await first.agent.close();
  });

  it("drops a torn last line and refuses damage anywhere else", async () => {
    const first = agentFor(facilitator.url, { ledger: fileLedger(file, quick) });
    await first.agent.pay(provider.url);
    await first.agent.close();
    await appendFile(file, '{"type":"payment","id":"0x12');
    const second = agentFor(facilitator.url, { ledger: fileLedger(file, quick) });
    expect(await second.agent.payments()).to.have.length(1);
    await second.agent.close();

    await writeFile(file, `{"type":"payment"}\n${await readFile(file, "utf8")}`);
    const third = agentFor(facilitator.url, { ledger: fileLedger(file, quick) });
    const error = await rejection(third.agent.pay(provider.url));
    expect(error.code).to.equal("ConfigError");
    expect(error.message).to.include("line 1");
  });

  it("refuses to forget what the day's budget counts", async () => {
    for (const keepSec of [3_600, 86_399, Number.NaN, -1, 86_400.5]) {
      expect(() => fileLedger(file, { keepSec }), String(keepSec)).to.throw(/keepSec/);
    }
    const policy = { perPayment: 500_000n, perDay: 500_000n, tokens: [TOKEN] };
    const options = { ...quick, keepSec: 86_400 };
    const first = agentFor(facilitator.url, { ledger: fileLedger(file, options), policy });
    await first.agent.pay(provider.url);
    await first.agent.close();
    const second = agentFor(facilitator.url, { ledger: fileLedger(file, options), policy });
    expect((await rejection(second.agent.pay(provider.url))).reason).to.equal("per_day");
    await second.agent.close();
  });

  it("frees at the next start what was reserved and never signed", async () => {
    const policy = { perPayment: 500_000n, perDay: 500_000n, tokens: [TOKEN] };
    const records: LedgerRecord[] = [];
    const ledgerOf = (): Ledger => ({
      load: async () => [...records],
      append: async (record) => {
        records.push(record);
      },
      close: async () => {},
    });
    const asked = new Promise<void>((resolve) => {
      const wallet = { address: addressOf("payer"), signTypedData: () => new Promise<string>(() => resolve()) };
      void agentFor(facilitator.url, { ledger: ledgerOf(), policy, wallet }).agent.pay(provider.url);
    });
    await asked;
    expect(records.map((record) => record.type === "payment" && record.state)).to.deep.equal(["reserved"]);
    const second = agentFor(facilitator.url, { ledger: ledgerOf(), policy });
    expect((await second.agent.pay(provider.url)).status).to.equal(200);
  });

  describe("when the process is killed", () => {
    /** Runs a paying process and kills it at the moment that `at` reaches this proxy, before or after it is passed on. */
    async function killAt(target: { url: string }, at: RegExp, moment: "before" | "after"): Promise<void> {
      let child: ChildProcess | undefined;
      const proxy = await serve(async (request): Promise<Answer> => {
        const headers: Record<string, string> = { "content-type": "application/json" };
        const proof = request.headers["x-payment"];
        if (typeof proof === "string") headers["x-payment"] = proof;
        const isMoment = at.test(`${request.method} ${request.url}${proof ? " paid" : ""}`);
        if (isMoment && moment === "before") {
          child?.kill("SIGKILL");
          return { status: 0, drop: true };
        }
        const body = request.method === "POST" ? { body: request.body } : {};
        const answer = await fetch(`${target.url}${request.url}`, { method: request.method, headers, ...body });
        const json: unknown = await answer.json();
        if (isMoment) {
          child?.kill("SIGKILL");
          return { status: 0, drop: true };
        }
        return { status: answer.status, json };
      });
      const isFacilitator = target === facilitator;
      const job = {
        key: testKey("payer"),
        ledger: file,
        facilitator: isFacilitator ? proxy.url : facilitator.url,
        token: TOKEN,
        url: provider.url,
      };
      // The quote names the real Facilitator; the child uses the proxy's address for it.
      if (isFacilitator) rename = proxy.url;
      child = spawn(
        process.execPath,
        [...RUN_TYPESCRIPT, join(__dirname, "support/paying-child.ts"), JSON.stringify(job)],
        {
          stdio: "ignore",
        },
      );
      const [, signal] = await once(child, "exit");
      expect(signal).to.equal("SIGKILL");
      rename = undefined;
    }
    let rename: string | undefined;

    beforeEach(async () => {
      provider = await startProvider(chain, facilitator.url, {
        tamper: (entry) => (rename ? { ...entry, hoodlayer: { facilitator: rename } } : entry),
      });
    });

    for (const moment of ["before", "after"] as const) {
      it(`${moment} the Facilitator took the authorization: the next process presents the same one`, async () => {
        await killAt(facilitator, /POST \/authorize/, moment);
        const lines = (await readFile(file, "utf8")).trim().split("\n");
        expect(JSON.parse(lines.at(-1) ?? "").state).to.equal("signed");
        // The next process knows the Facilitator by the address it signed for.
        const address = JSON.parse(lines.at(-1) ?? "").facilitator as string;
        const subject = agentFor(address, {
          ledger: fileLedger(file, quick),
          fetch: (input, init) => fetch(String(input).replace(address, facilitator.url), init),
        });
        const response = await subject.agent.pay(provider.url);
        expect([response.status, response.receipt?.resumed]).to.deep.equal([200, true]);
        expect([transfersSigned(subject), chain.transfers.length]).to.deep.equal([0, 1]);
        await subject.agent.close();
      }).timeout(120_000);
    }

    it("before the budget was reserved: nothing is held", async () => {
      await killAt(facilitator, /GET \/accounts/, "before");
      const subject = agentFor(facilitator.url, { ledger: fileLedger(file, quick) });
      expect(await subject.agent.payments()).to.deep.equal([]);
      await subject.agent.close();
    }).timeout(120_000);
  });
});
