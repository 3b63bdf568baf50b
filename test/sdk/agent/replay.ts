/** HA6 from the agent's side: what was paid and served, and lost on the way, is given again and never paid again. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { memoryLedger } from "turnpike/agent";
import { fileLedger } from "turnpike/agent/file-ledger";
import { createProvider, gated, memoryClaims, type Provider } from "turnpike/gate";
import { PaymentAlreadyUsed } from "turnpike/protocol";
import { closeServer, listen } from "../../support/gate";
import { RUN_TYPESCRIPT } from "../../support/typescript";
import { rejection } from "./support/rejection";
import { closeAll } from "./support/servers";
import {
  addressOf,
  agentFor,
  Chain,
  type FacilitatorStandIn,
  NETWORK,
  startFacilitator,
  TOKEN,
  TOKEN_DOMAIN,
  testKey,
  transfersSigned,
} from "./support/world";

describe("the agent gets what it paid for, and lost", () => {
  let folder: string;
  let chain: Chain;
  let facilitator: FacilitatorStandIn;
  let provider: Provider;
  let server: Server;
  let url: string;
  let served: number;
  let isFree: Promise<void>;
  let onServed: () => void;

  async function open(replay: object | false): Promise<void> {
    provider = createProvider({
      network: NETWORK,
      token: { address: TOKEN, ...TOKEN_DOMAIN },
      payTo: addressOf("provider"),
      facilitator: { url: facilitator.url, signers: [addressOf("facilitator")] },
      secret: "a secret of this test, long enough to be one",
      claims: memoryClaims({ warn: false }),
      clock: { nowSec: () => chain.nowSec },
      verify: "signature",
      replay,
    });
    const gate = provider.paymentGate({ pricing: [{ type: "one-time", amount: 500_000n }] });
    server = createServer(
      gated(gate, async (_request, response) => {
        served++;
        onServed();
        await isFree;
        response.end("the content");
      }),
    );
    url = `${await listen(server)}/report`;
  }

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "turnpike-replay-"));
    chain = new Chain();
    facilitator = await startFacilitator(chain);
    served = 0;
    isFree = Promise.resolve();
    onServed = () => undefined;
  });
  afterEach(async () => {
    await closeServer(server);
    await provider.close();
    await closeAll();
    await rm(folder, { recursive: true, force: true });
  });

  /** An agent in a process of its own is killed once the handler runs. @returns what it left behind */
  async function killWhileServed(): Promise<string> {
    let goOn: () => void = () => undefined;
    isFree = new Promise((resolve) => {
      goOn = resolve;
    });
    const isServed = new Promise<void>((resolve) => {
      onServed = resolve;
    });
    const ledger = join(folder, "agent.jsonl");
    const job = { key: testKey("payer"), ledger, facilitator: facilitator.url, token: TOKEN, url };
    const script = join(__dirname, "support/paying-child.ts");
    const child = spawn(process.execPath, [...RUN_TYPESCRIPT, script, JSON.stringify(job)], { stdio: "ignore" });
    await isServed;
    child.kill("SIGKILL");
    await once(child, "exit");
    goOn();
    // The lock of the killed process stays with the file that it locked.
    await cp(ledger, join(folder, "after.jsonl"));
    return join(folder, "after.jsonl");
  }

  it("HA6 takes the content after kill -9 between presenting and the answer, without another signature", async () => {
    await open({});
    const ledger = await killWhileServed();
    const after = agentFor(facilitator.url, { ledger: fileLedger(ledger) });
    const response = await after.agent.pay(url);
    expect([response.status, await response.text()]).to.deep.equal([200, "the content"]);
    expect(response.headers.get("idempotency-replayed")).to.equal("true");
    expect(response.receipt).to.include({ resumed: true, amount: 500_000n });
    expect([served, chain.transfers.length, transfersSigned(after)]).to.deep.equal([1, 1, 0]);
    await after.agent.close();
  }).timeout(120_000);

  it("HA6 reports what was served and is not held, by a code of its own, and signs nothing", async () => {
    await open(false);
    const ledger = await killWhileServed();
    const after = agentFor(facilitator.url, { ledger: fileLedger(ledger) });
    const error = await rejection(after.agent.pay(url));
    expect(error).to.be.instanceOf(PaymentAlreadyUsed);
    expect([error.code, error.reason]).to.deep.equal(["PaymentAlreadyUsed", "already_used"]);
    expect(`${error.message} ${error.remedy}`)
      .to.include("Do not pay again")
      .and.not.match(/fresh quote/);
    expect(error.details).to.include.keys("paymentId", "transaction");
    expect([served, chain.transfers.length, transfersSigned(after)]).to.deep.equal([1, 1, 0]);
    await after.agent.close();
  }).timeout(120_000);

  it("HA6 gives the content of a purchase key to an agent that has lost everything but its wallet", async () => {
    await open({});
    const init = { idempotencyKey: "invoice 1" };
    await agentFor(facilitator.url).agent.pay(url, init);
    const reborn = agentFor(facilitator.url, { ledger: memoryLedger() });
    for (let i = 0; i < 2; i++) {
      expect(await (await reborn.agent.pay(url, init)).text()).to.equal("the content");
    }
    expect([served, chain.transfers.length]).to.deep.equal([1, 1]);
  });

  it("HA6 never pays a purchase key again that a provider has served and forgotten", async () => {
    await open(false);
    const { agent, signed } = agentFor(facilitator.url);
    const init = { idempotencyKey: "invoice 1" };
    expect((await agent.pay(url, init)).status).to.equal(200);
    const before = signed.length;
    for (let i = 0; i < 3; i++) expect((await rejection(agent.pay(url, init))).code).to.equal("PaymentAlreadyUsed");
    expect([served, chain.transfers.length, signed.length]).to.deep.equal([1, 1, before]);
  });
});
