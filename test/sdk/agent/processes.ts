import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { memoryLedger } from "turnpike/agent";
import type { Hex } from "turnpike/protocol";
import { RUN_TYPESCRIPT } from "../../support/typescript";
import { PRICE, type Relay, startRelay } from "./support/relay";
import { closeAll } from "./support/servers";
import { addressOf, agentFor, CHAIN_ID, Chain, startFacilitator, startProvider, TOKEN, testKey } from "./support/world";

/** Runs one agent in its own process. @returns its exit code: 0 done, 1 not served, 2 refused */
async function runChild(job: object): Promise<number | null> {
  const child = spawn(
    process.execPath,
    [...RUN_TYPESCRIPT, join(__dirname, "support/paying-child.ts"), JSON.stringify({ key: testKey("payer"), ...job })],
    { stdio: "ignore" },
  );
  const [code] = (await once(child, "exit")) as [number | null];
  return code;
}

describe("agents of one wallet", () => {
  let folder: string;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "turnpike-processes-"));
  });
  afterEach(async () => {
    await closeAll();
    await rm(folder, { recursive: true, force: true });
  });

  it("D10 in two processes with one ledger share one budget: one of two payments is made", async () => {
    const chain = new Chain();
    const facilitator = await startFacilitator(chain);
    const provider = await startProvider(chain, facilitator.url);
    const ledger = join(folder, "agent.jsonl");
    const job = { ledger, facilitator: facilitator.url, token: TOKEN, perDay: "500000" };
    const codes = await Promise.all([1, 2].map((n) => runChild({ ...job, url: `${provider.url}/${n}` })));
    expect(codes.sort()).to.deep.equal([0, 2]);
    expect([chain.transfers.length, facilitator.signatures.size]).to.deep.equal([1, 1]);
  }).timeout(120_000);

  describe("that do not share a ledger", () => {
    let relay: Relay;
    let planId: Hex;
    const payer = addressOf("payer");
    const freshAgent = () =>
      agentFor(relay.url, {
        ledger: memoryLedger(),
        policy: { perPayment: PRICE, perDay: 1_000n * PRICE, tokens: [relay.addresses.token] },
        deployments: [{ chainId: CHAIN_ID, turnpike: relay.addresses.turnpike }],
      });
    const charged = async () => (await relay.token.balanceOf(addressOf("treasury"))) as bigint;

    beforeEach(async () => {
      relay = await startRelay();
      planId = await relay.createPlan();
      await relay.fund(payer, 10_000n * PRICE);
    });

    it("sign permits with the same nonce, and both signups succeed", async () => {
      // The second needs far more than the first one's permit leaves.
      const dear = await relay.createPlan({ amount: 100n * PRICE });
      const [one, other] = [freshAgent(), freshAgent()];
      relay.holdUntil(2);
      const made = await Promise.all([one.agent.subscribe({ planId }), other.agent.subscribe({ planId: dear })]);
      expect(made.map(({ status }) => status)).to.deep.equal(["ACTIVE", "ACTIVE"]);
      expect(await charged()).to.equal(101n * PRICE);
      expect((await relay.approval(payer)) >= 2n * 101n * PRICE, "enough for both to renew").to.equal(true);
      const signups = [one, other].map(({ signed }) => signed.filter((type) => type === "Subscribe").length);
      expect(signups, "each signed once").to.deep.equal([1, 1]);
    });

    it("subscribe to the same plan at once, and share one subscription", async () => {
      relay.holdUntil(2);
      const made = await Promise.all([freshAgent(), freshAgent()].map(({ agent }) => agent.subscribe({ planId })));
      expect(made[0]?.id).to.equal(made[1]?.id);
      expect(await charged()).to.equal(PRICE);
    });

    it("do so in two real processes, each with its own ledger", async () => {
      const { token, turnpike } = relay.addresses;
      const other = await relay.createPlan({ amount: 100n * PRICE });
      const job = { facilitator: relay.url, token, turnpike, perDay: (1_000n * PRICE).toString() };
      const codes = await Promise.all(
        [planId, other].map((plan, n) => runChild({ ...job, planId: plan, ledger: join(folder, `${n}.jsonl`) })),
      );
      expect(codes).to.deep.equal([0, 0]);
      expect(await charged()).to.equal(101n * PRICE);
    }).timeout(120_000);
  });
});
