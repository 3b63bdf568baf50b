/** Payments over Permit2: what is signed, for whom, how often, and what a server's lies change. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "chai";
import { type AgentOptions, type AgentPolicy, memoryLedger } from "turnpike/agent";
import { fileLedger } from "turnpike/agent/file-ledger";
import { ConfigError, EXACT_PERMIT2_PROXY, PERMIT2, UPTO_PERMIT2_PROXY } from "turnpike/protocol";
import { browserWallet } from "./support/browser-wallet";
import {
  EIP3009_ENTRY,
  MAX,
  Permit2Chain,
  type Permit2ServerOptions,
  SETTLER,
  startPermit2Rpc,
  startPermit2Server,
} from "./support/permit2-server";
import { rejection } from "./support/rejection";
import { closeAll } from "./support/servers";
import { addressOf, agentFor, CHAIN_ID, NETWORK, TOKEN } from "./support/world";

const POLICY: AgentPolicy = {
  perPayment: MAX,
  perDay: 10n * MAX,
  tokens: [TOKEN],
  methods: ["eip3009", "permit2", "upto"],
};

describe("payments over Permit2", () => {
  let chain: Permit2Chain;
  let folder = "";
  beforeEach(async () => {
    chain = new Permit2Chain();
    folder = await mkdtemp(join(tmpdir(), "turnpike-permit2-"));
  });
  afterEach(async () => {
    await closeAll();
    await rm(folder, { recursive: true });
  });

  const clock = { nowSec: () => chain.nowSec };
  const server = (options?: Permit2ServerOptions) => startPermit2Server(chain, options);
  const agentOn = (policy: Partial<AgentPolicy> = {}, more: Partial<AgentOptions> = {}) =>
    agentFor("http://127.0.0.1:1", { policy: { ...POLICY, ...policy }, clock, ...more });
  /** An agent with its own RPC. */
  const readingAgent = async (policy: Partial<AgentPolicy> = {}, more: Partial<AgentOptions> = {}) =>
    agentOn(policy, { rpc: { [CHAIN_ID]: (await startPermit2Rpc(chain)).url }, ...more });

  it("HE21 pays exact and upto through their own proxies, with a random nonce and the payee as witness", async () => {
    for (const [scheme, spender] of [
      ["exact", EXACT_PERMIT2_PROXY],
      ["upto", UPTO_PERMIT2_PROXY],
    ] as const) {
      const shop = await server({ scheme });
      const { agent } = await readingAgent();
      for (const path of ["/a", "/b"]) {
        const paid = await agent.pay(`${shop.url}${path}`);
        expect([paid.status, paid.receipt?.method]).to.deep.equal([200, scheme === "upto" ? "upto" : "permit2"]);
      }
      const facilitator = scheme === "upto" ? { facilitator: SETTLER } : {};
      const terms = {
        from: addressOf("payer"),
        token: TOKEN,
        amount: MAX,
        spender,
        to: addressOf("provider"),
        ...facilitator,
      };
      for (const signed of shop.signed) expect(signed).to.deep.include(terms);
      expect(new Set(shop.signed.map(({ nonce }) => nonce >> 8n)).size).to.equal(2);
    }
  });

  it("HE21 signs no deadline beyond the policy's window, however long the server asks for", async () => {
    const shop = await server({ tamper: (entry) => ({ ...entry, maxTimeoutSeconds: 100_000 }) });
    await (await readingAgent({ maxWindowSec: 120 })).agent.pay(shop.url);
    expect(shop.signed.map(({ deadline }) => Number(deadline) - chain.nowSec)).to.deep.equal([120]);
  });

  const LIES: Record<string, [Permit2ServerOptions["tamper"], string, Partial<AgentPolicy>?]> = {
    "upto, which the policy does not name": [undefined, "method", { methods: ["eip3009", "permit2"] }],
    "another facilitator": [undefined, "facilitator_address", { uptoFacilitators: [addressOf("stranger")] }],
    "no facilitator": [(entry) => ({ ...entry, extra: { assetTransferMethod: "permit2" } }), "facilitator_address"],
    "a malformed facilitator": [
      (entry) => ({ ...entry, extra: { assetTransferMethod: "permit2", facilitatorAddress: "0x12" } }),
      "facilitator_address",
    ],
    "another transfer method": [(entry) => ({ ...entry, extra: { assetTransferMethod: "other" } }), "transfer_method"],
    "another payee": [
      (entry) => ({ ...entry, payTo: addressOf("thief") }),
      "payee",
      { payees: [addressOf("provider")] },
    ],
    "another token": [(entry) => ({ ...entry, asset: addressOf("thief") }), "token"],
    "another network": [(entry) => ({ ...entry, network: "eip155:1" }), "network", { networks: [NETWORK] }],
    "a maximum above the limit": [(entry) => ({ ...entry, amount: `${MAX + 1n}` }), "limit"],
    "a maximum of nothing": [(entry) => ({ ...entry, amount: "0" }), "amount"],
    "an unknown scheme": [(entry) => ({ ...entry, scheme: "batch-settlement" }), "scheme"],
  };
  for (const [lie, [tamper, reason, policy]] of Object.entries(LIES)) {
    it(`HE22 signs nothing for a 402 with ${lie}`, async () => {
      const shop = await server(tamper && { tamper });
      const subject = await readingAgent(policy);
      const refused = await rejection(subject.agent.pay(shop.url));
      expect([refused.code, refused.reason]).to.deep.equal(["PolicyRefused", reason]);
      expect(subject.signed).to.deep.equal([]);
    });
  }

  it("HE22 signs no maximum above the call's own, and hands the 402 back from fetch", async () => {
    const shop = await server();
    const subject = await readingAgent();
    const refused = await rejection(subject.agent.pay(shop.url, { maxAmount: MAX - 1n }));
    expect(refused.reason).to.equal("max_amount");
    expect((await subject.agent.fetch(shop.url, { maxAmount: MAX - 1n })).status).to.equal(402);
    expect(subject.signed).to.deep.equal([]);
  });

  it("HE23 presents the same payload after a lost answer, also from the next process", async () => {
    const shop = await server({ steps: ["drop", "settle_then_drop", "402", "402", "402", "402"] });
    const file = join(folder, "ledger");
    const subject = await readingAgent({}, { ledger: fileLedger(file) });
    expect((await rejection(subject.agent.pay(shop.url))).code).to.equal("InvalidPaymentProof");
    await subject.agent.close();
    const reborn = await readingAgent({}, { ledger: fileLedger(file) });
    expect((await rejection(reborn.agent.pay(shop.url))).code).to.equal("InvalidPaymentProof");
    await reborn.agent.close();
    expect([shop.headers.size, chain.transfers.length]).to.deep.equal([1, 1]);
    expect([...subject.signed, ...reborn.signed]).to.deep.equal(["PermitWitnessTransferFrom"]);
  });

  it("HE23 signs another only when its own RPC proves the first unused after its deadline", async () => {
    const shop = await server({ steps: Array(12).fill("402") });
    const ledger = memoryLedger();
    const blind = agentOn({}, { ledger });
    await rejection(blind.agent.pay(shop.url));
    chain.nowSec += 61;
    expect((await rejection(blind.agent.pay(shop.url))).code).to.equal("PaymentPending");
    expect(shop.headers.size).to.equal(1);
    shop.steps.length = 0;
    shop.steps.push("402");
    expect((await (await readingAgent({}, { ledger })).agent.pay(shop.url)).status).to.equal(200);
    expect([shop.headers.size, chain.transfers.length]).to.deep.equal([2, 1]);
  });

  it("HE24 counts what the chain proves was charged, and the rest of the maximum pays again", async () => {
    const shop = await server({ charge: 100n });
    const subject = await readingAgent({ perDay: MAX + 500n });
    for (const path of ["/1", "/2", "/3"]) {
      const { receipt } = await subject.agent.pay(`${shop.url}${path}`);
      expect(receipt).to.include({ amount: MAX, charged: 100n, reported: 100n });
    }
    expect((await subject.agent.payments()).map(({ charged }) => charged)).to.deep.equal([100n, 100n, 100n]);
    expect(subject.events.some(({ type }) => type === "payment.misreported")).to.equal(false);
  });

  it("HE24 lets no report lower what counts where the agent has no RPC", async () => {
    const shop = await server({ charge: 100n });
    const subject = agentOn({ perDay: MAX + 500n });
    const { receipt } = await subject.agent.pay(`${shop.url}/1`);
    expect(receipt).to.include({ amount: MAX, charged: undefined, reported: 100n });
    expect((await rejection(subject.agent.pay(`${shop.url}/2`))).reason).to.equal("per_day");
  });

  const REPORTS: Record<string, [Permit2ServerOptions["report"], string | undefined, bigint | undefined]> = {
    "less than it charged": [(report) => ({ ...report, amount: "1" }), "amount", 400n],
    "more than the maximum": [(report) => ({ ...report, amount: `${MAX + 1n}` }), "amount", 400n],
    "another payer": [(report) => ({ ...report, payer: addressOf("thief") }), "payer", 400n],
    "another network": [(report) => ({ ...report, network: "eip155:1" }), "network", 400n],
    "no transaction and no charge": [(report) => ({ ...report, transaction: "", amount: "0" }), undefined, undefined],
  };
  for (const [lie, [report, field, charged]] of Object.entries(REPORTS)) {
    it(`HE24 names a server that reports ${lie}, and counts what the chain proves`, async () => {
      const shop = await server({ charge: 400n, ...(report && { report }) });
      const subject = await readingAgent();
      const paid = await subject.agent.pay(shop.url);
      expect([paid.status, paid.receipt?.charged]).to.deep.equal([200, charged]);
      const named = subject.events.flatMap((event) => (event.type === "payment.misreported" ? [event.field] : []));
      expect(named).to.deep.equal(field ? [field] : []);
    });
  }

  it("HE24 takes another payment's transaction for no proof of this one", async () => {
    const cheap = await server({ charge: 1n });
    const subject = await readingAgent();
    const { receipt: first } = await subject.agent.pay(cheap.url);
    const report = (settled: object) => ({ ...settled, transaction: first?.transaction, amount: "1" });
    const dear = await server({ charge: MAX, report });
    const { receipt } = await subject.agent.pay(dear.url);
    expect(receipt).to.include({ amount: MAX, charged: undefined, transaction: first?.transaction });
  });

  it("HE24 takes no failed or indirect settlement, and no other transfer, for a proof", async () => {
    const spoilt: ((mined: { to: string; input: string; logs: object[] }) => object)[] = [
      (mined) => ({ ...mined, to: addressOf("stranger") }),
      (mined) => ({ ...mined, input: mined.input.slice(0, 200) }),
      (mined) => ({ ...mined, input: `0x12345678${mined.input.slice(10)}` }),
      (mined) => ({ ...mined, logs: [] }),
    ];
    for (const spoil of spoilt) {
      const shop = await server({
        charge: 100n,
        report: (settled) => {
          const hash = String(settled.transaction);
          chain.mined.set(hash, spoil(chain.mined.get(hash) as never) as never);
          return settled;
        },
      });
      const { receipt } = await (await readingAgent()).agent.pay(shop.url);
      expect(receipt).to.include({ charged: undefined, reported: 100n });
    }
  });

  it("HE25 counts a charge of nothing in full until its deadline, then frees it by its own RPC alone", async () => {
    const shop = await server({ charge: 0n });
    const ledger = memoryLedger();
    const policy = { perDay: MAX };
    const subject = await readingAgent(policy, { ledger });
    const { receipt } = await subject.agent.pay(`${shop.url}/1`);
    expect(receipt).to.include({ charged: undefined, reported: 0n });
    await subject.agent.settleHeld();
    expect((await rejection(subject.agent.pay(`${shop.url}/2`))).reason).to.equal("per_day");
    chain.nowSec += 61;
    expect((await rejection(agentOn(policy, { ledger }).agent.pay(`${shop.url}/2`))).reason).to.equal("per_day");
    expect((await subject.agent.pay(`${shop.url}/2`)).status).to.equal(200);
    expect((await subject.agent.payments()).map(({ charged }) => charged)).to.deep.equal([0n, undefined]);
  });

  it("HE25 finds a later charge of a payment that was reported as free", async () => {
    const shop = await server({ charge: 0n });
    const subject = await readingAgent();
    await subject.agent.pay(shop.url);
    const [signed] = shop.signed;
    if (signed) chain.settle(signed, MAX);
    chain.nowSec += 61;
    const [view] = await subject.agent.settleHeld();
    expect(view).to.include({ amount: MAX, charged: undefined });
  });

  it("HE26 adds a permit over exactly the maximum where Permit2 is not approved and the server sponsors it", async () => {
    chain.allowance = MAX - 1n;
    for (const scheme of ["exact", "upto"] as const) {
      const shop = await server({ scheme, sponsors: true });
      const subject = await readingAgent();
      expect((await subject.agent.pay(shop.url)).status).to.equal(200);
      expect(subject.signed).to.deep.equal(["PermitWitnessTransferFrom", "Permit"]);
      expect(shop.approved).to.deep.equal([MAX]);
    }
  });

  it("HE26 signs no permit where the allowance suffices", async () => {
    const shop = await server({ sponsors: true });
    const subject = await readingAgent();
    await subject.agent.pay(shop.url);
    expect(subject.signed).to.deep.equal(["PermitWitnessTransferFrom"]);
  });

  it("HE26 signs the permits of parallel payments one after the other, each for its own nonce", async () => {
    chain.allowance = 0n;
    const shop = await server({ sponsors: true });
    const { agent } = await readingAgent();
    const paid = await Promise.all(["/1", "/2", "/3"].map((path) => agent.pay(`${shop.url}${path}`)));
    expect(paid.map(({ status }) => status)).to.deep.equal([200, 200, 200]);
    expect([chain.permitNonce, shop.approved.length]).to.deep.equal([3n, 3]);
  });

  it("HE26 names the remedy where nothing can approve Permit2, and signs nothing", async () => {
    chain.allowance = 0n;
    const plain = await server();
    const sponsoring = await server({ sponsors: true });
    for (const [shop, why, hasPermits] of [
      [plain, "does not sponsor", true],
      [sponsoring, "EIP-2612", false],
    ] as const) {
      chain.permitNonce = hasPermits ? 0n : undefined;
      const subject = await readingAgent();
      const refused = await rejection(subject.agent.pay(shop.url));
      expect(refused.code).to.equal("InsufficientApproval");
      expect(refused.message).to.include(why).and.include(`approve(${PERMIT2}, amount)`);
      expect(refused.details).to.include({ token: TOKEN, spender: PERMIT2, required: `${MAX}`, available: "0" });
      expect(subject.signed).to.deep.equal([]);
    }
  });

  it("HE26 drops a contract wallet's payment whose permit nobody can sponsor, unsent", async () => {
    chain.allowance = 0n;
    const shop = await server({ sponsors: true });
    const wallet = { address: addressOf("payer"), signTypedData: async () => `0x${"ab".repeat(100)}` };
    const { agent } = await readingAgent({}, { wallet });
    expect((await rejection(agent.pay(shop.url))).code).to.equal("InsufficientApproval");
    expect(shop.headers.size).to.equal(0);
    expect((await agent.payments()).map(({ state }) => state)).to.deep.equal(["released"]);
  });

  it("HE27 without an RPC presents the same payment again once the wallet has approved Permit2", async () => {
    const shop = await server({ steps: ["412"] });
    const subject = agentOn();
    const refused = await rejection(subject.agent.pay(shop.url));
    expect([refused.code, refused.details?.spender]).to.deep.equal(["InsufficientApproval", PERMIT2]);
    expect((await subject.agent.pay(shop.url)).status).to.equal(200);
    expect([shop.headers.size, subject.signed.length]).to.deep.equal([1, 1]);
  });

  it("HE23 signs the same nonce for the same purchase key, so that Permit2 refuses a second transfer", async () => {
    const shop = await server();
    await (await readingAgent()).agent.pay(shop.url, { idempotencyKey: "k" });
    await rejection((await readingAgent()).agent.pay(shop.url, { idempotencyKey: "k" }));
    expect([chain.transfers.length, new Set(shop.signed.map(({ nonce }) => nonce)).size]).to.deep.equal([1, 1]);
  });

  it("signs as a wallet of the browser and as a contract wallet", async () => {
    const shop = await server();
    expect((await agentOn({}, { wallet: browserWallet() }).agent.pay(shop.url)).status).to.equal(200);
    const contract = { address: addressOf("payer"), signTypedData: async () => `0x${"ab".repeat(100)}` };
    await rejection(agentOn({}, { wallet: contract }).agent.pay(shop.url));
    expect([...shop.headers].some((header) => atob(header).includes("ab".repeat(100)))).to.equal(true);
  });

  it("prefers the token's own authorization, unless its policy prefers another method or it cannot be paid", async () => {
    const offers = async (options: Permit2ServerOptions) => {
      const more = [{ ...EIP3009_ENTRY, amount: `${MAX}` }];
      const cheaper = (entry: Record<string, unknown>) => ({ ...entry, amount: `${MAX - 1n}` });
      return server({ more, tamper: cheaper, ...options });
    };
    const signedOn = async (policy: Partial<AgentPolicy>) => {
      const subject = await readingAgent(policy);
      await subject.agent.pay((await offers({})).url).catch(() => undefined);
      return subject.signed[0];
    };
    expect(await signedOn({})).to.equal("TransferWithAuthorization");
    expect(await signedOn({ prefer: { methods: ["upto"] } })).to.equal("PermitWitnessTransferFrom");
    expect(await signedOn({ prefer: { methods: [] } })).to.equal("PermitWitnessTransferFrom");
    chain.allowance = 0n;
    expect(await signedOn({ prefer: { methods: ["upto"] } })).to.equal("TransferWithAuthorization");
  });

  it("quotes the maximum of upto with its method, and whether the policy allows it", async () => {
    const shop = await server();
    const priceBy = async (policy: Partial<AgentPolicy>) => (await agentOn(policy).agent.quote(shop.url)).options[0];
    expect(await priceBy({})).to.include({ method: "upto", amount: MAX, verdict: "allow" });
    expect(await priceBy({ methods: ["permit2"] })).to.include({ verdict: "refuse", reason: "method" });
  });

  it("asks with the method and the facilitator before it pays a new payee", async () => {
    const shop = await server();
    const asked: unknown[] = [];
    const ask = (intent: object) => asked.push(intent) > 0;
    await agentOn({ askNewPayees: true, ask }).agent.pay(shop.url);
    expect(asked).to.have.length(1);
    expect(asked[0]).to.include({ method: "upto", facilitatorAddress: SETTLER, amount: MAX });
  });

  it("refuses a policy with an unknown method or facilitator, by the name of the field", () => {
    const made = (policy: object) => () => agentOn(policy);
    expect(made({ methods: ["cash"] })).to.throw(ConfigError, "policy.methods");
    expect(made({ prefer: { methods: ["cash"] } })).to.throw(ConfigError, "policy.prefer.methods");
    expect(made({ uptoFacilitators: ["0x12"] })).to.throw(ConfigError, "policy.uptoFacilitators");
  });
});
