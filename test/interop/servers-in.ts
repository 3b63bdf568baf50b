import { expect } from "chai";
import { clientsOf, testAccount, v2Client, walletOf } from "./support/clients";
import type { Served } from "./support/gates";
import { type Hex, v1, v2 } from "./support/stock";
import { STOCK_SERVERS, type StockServer } from "./support/stock-servers";
import { CAIP2, type InteropWorld, type Payer, startInteropWorld, V1_NETWORK } from "./support/world";

interface Client {
  verify(payload: object, requirements: object): Promise<{ isValid: boolean; invalidReason?: string; payer?: string }>;
  settle(
    payload: object,
    requirements: object,
  ): Promise<{ success: boolean; transaction: string; network: string; payer?: string; errorReason?: string }>;
}

/** Reasons as each version's packages name them. */
const WORDS = {
  1: {
    funds: "insufficient_funds",
    signature: "invalid_exact_evm_payload_signature",
    value: "invalid_exact_evm_payload_authorization_value",
    used: "invalid_transaction_state",
    spent: "invalid_transaction_state",
  },
  2: {
    funds: "invalid_exact_evm_insufficient_balance",
    signature: "invalid_exact_evm_signature",
    value: "invalid_exact_evm_payload_authorization_value_mismatch",
    // It bought something at a server: what the chain says of it is not asked.
    used: "invalid_transaction_state",
    spent: "invalid_exact_evm_nonce_already_used",
  },
};

// Stock servers' own clients of a Facilitator, which parse its answers, against this project's.
describe("interop > servers in", function () {
  // Many real blocks, on machines that may be slow.
  this.timeout(240_000);
  let world: InteropWorld;
  const started: Served[] = [];

  before(async () => {
    world = await startInteropWorld();
  });
  after(async () => {
    for (const server of started) await server.stop();
    await world.stop();
  });

  const requirements = {
    1: (more: object = {}) => ({
      scheme: "exact",
      network: V1_NETWORK,
      maxAmountRequired: "1000",
      resource: "https://api.example/r",
      description: "",
      mimeType: "",
      payTo: world.payTo,
      maxTimeoutSeconds: 60,
      asset: world.usdc.address,
      outputSchema: { input: { type: "http", method: "GET", discoverable: true } },
      extra: { name: world.usdc.name, version: world.usdc.version },
      ...more,
    }),
    2: (more: object = {}) => ({
      scheme: "exact",
      network: CAIP2,
      amount: "1000",
      asset: world.usdc.address,
      payTo: world.payTo,
      maxTimeoutSeconds: 60,
      extra: { name: world.usdc.name, version: world.usdc.version },
      ...more,
    }),
  };
  const clients = {
    1: (): Client => v1.verify().useFacilitator({ url: world.facilitatorUrl }),
    2: (): Client => new (v2.server().HTTPFacilitatorClient)({ url: world.facilitatorUrl }),
  };

  /** A payload as the version's own client makes it. */
  async function sign(version: 1 | 2, payer: Payer, wanted: object): Promise<Record<string, never>> {
    if (version === 2) {
      const client = v2Client(v2.fetch(), payer.account, { unlimited: true });
      const resource = { url: "https://api.example/r" };
      return (await client.createPaymentPayload({ x402Version: 2, resource, accepts: [wanted] })) as never;
    }
    const header = await v1.client().createPaymentHeader(walletOf(world, payer.account), 1, wanted);
    return JSON.parse(Buffer.from(header, "base64").toString("utf8"));
  }

  for (const version of [1, 2] as const) {
    describe(`version ${version}`, () => {
      it("verifies, settles, and verifies no more: the nonce is used", async () => {
        const payer = await world.payer();
        const wanted = requirements[version]();
        const payload = await sign(version, payer, wanted);
        const client = clients[version]();
        expect(await client.verify(payload, wanted)).to.deep.include({ isValid: true, payer: payer.address });
        const settled = await client.settle(payload, wanted);
        expect(settled).to.deep.include({
          success: true,
          payer: payer.address,
          network: version === 1 ? V1_NETWORK : CAIP2,
        });
        const receipt = await world.chain.provider.getTransactionReceipt(settled.transaction);
        expect(receipt?.status).to.equal(1);
        expect(await client.verify(payload, wanted)).to.deep.include({
          isValid: false,
          invalidReason: WORDS[version].used,
        });
        // Any further request, here or elsewhere, is refused because the payment already bought something.
        expect(await client.settle(payload, wanted)).to.deep.include({
          success: false,
          errorReason: "payment_already_granted",
        });
        expect(await world.transfers(payer.address)).to.deep.equal([1_000n]);
      });

      it("reports a used nonce as invalid where the payment was made elsewhere", async () => {
        const payer = await world.payer();
        const wanted = requirements[version]();
        const payload = await sign(version, payer, wanted);
        await world.spend(payload);
        const client = clients[version]();
        expect(await client.verify(payload, wanted)).to.deep.include({
          isValid: false,
          invalidReason: WORDS[version].spent,
        });
        expect(await client.settle(payload, wanted)).to.deep.include({ success: false });
        expect(await world.transfers(payer.address)).to.deep.equal([1_000n]);
      });

      it("gives each negative answer as a body with status 200, in the standard's words", async () => {
        const payer = await world.payer();
        const poor: Payer = { ...payer, kind: "key", ...poorAccount() };
        const wanted = requirements[version]();
        const key = version === 1 ? "maxAmountRequired" : "amount";
        const brief = { ...wanted, maxTimeoutSeconds: 1 };
        const good = await sign(version, payer, wanted);
        const altered = (fields: object) => structuredClone(changed(good, fields));
        const words = WORDS[version];
        const cases: [string, object, object][] = [
          [words.funds, await sign(version, poor, wanted), wanted],
          [words.signature, altered({ signature: `0x${"11".repeat(65)}` }), wanted],
          [words.value, altered({ authorization: { value: "1001" } }), wanted],
          [words.signature, altered({ authorization: { validAfter: "1" } }), wanted],
          ["invalid_exact_evm_payload_authorization_valid_before", await sign(version, payer, brief), brief],
        ];
        const other = { ...wanted, payTo: payer.address };
        const dearer = { ...wanted, [key]: "1001" };
        if (version === 1) {
          cases.push(["invalid_exact_evm_payload_recipient_mismatch", good, other]);
          cases.push([words.value, good, dearer]);
        } else {
          cases.push(["invalid_payment_requirements", good, other], ["invalid_payment_requirements", good, dearer]);
        }
        const client = clients[version]();
        for (const [reason, payload, asked] of cases) {
          const verdict = await client.verify(payload, asked);
          if (version === 1) v1.types().VerifyResponseSchema.parse(verdict);
          expect([verdict.isValid, verdict.invalidReason], JSON.stringify(verdict)).to.deep.equal([false, reason]);
          const outcome = await client.settle(payload, asked);
          expect([outcome.success, outcome.errorReason, outcome.transaction]).to.deep.equal([false, reason, ""]);
        }
        expect(await world.transfers(payer.address)).to.deep.equal([]);
      });

      it("C8 refuses a payload of another shape, without a parser's message", async () => {
        for (const endpoint of ["verify", "settle"]) {
          for (const body of ["{", "[]", '{"paymentPayload":1}', '{"paymentPayload":{},"paymentRequirements":{}}']) {
            const answer = await fetch(`${world.facilitatorUrl}/${endpoint}`, {
              method: "POST",
              headers: { "Content-Type": "application/json" },
              body,
            });
            const text = await answer.text();
            expect(answer.status, text).to.be.within(400, 422);
            expect(JSON.parse(text)).to.include(endpoint === "verify" ? { isValid: false } : { success: false });
            expect(text).to.not.match(/unexpected|SyntaxError|ZodError|position \d/i);
          }
        }
      });

      it("B1 HA3 settles one payload that comes fifty times at once by one transfer, and grants it once", async () => {
        const payer = await world.payer();
        const wanted = requirements[version]();
        const payload = await sign(version, payer, wanted);
        const client = clients[version]();
        const all = await Promise.all(Array.from({ length: 50 }, () => client.settle(payload, wanted)));
        expect(all.filter(({ success }) => success)).to.have.length(1);
        expect(await world.transfers(payer.address)).to.deep.equal([1_000n]);
      });
    });
  }

  for (const name of Object.keys(STOCK_SERVERS) as StockServer[]) {
    it(`gives ${name} no second sale for a payload that is presented again`, async () => {
      const server = await STOCK_SERVERS[name](world, world.facilitatorUrl, { prices: { "/r": "$0.001" } });
      started.push(server);
      const payer = await world.payer();
      const header = name.startsWith("@") ? "PAYMENT-SIGNATURE" : "X-PAYMENT";
      let sent: string | null = null;
      const spy: typeof fetch = (input, init) => {
        sent = new Request(input, init).headers.get(header) ?? sent;
        return fetch(input, init);
      };
      const stock = v2.fetch();
      const pay = name.startsWith("@")
        ? stock.wrapFetchWithPayment(spy, v2Client(stock, payer.account))
        : v1.fetch().wrapFetchWithPayment(spy, walletOf(world, payer.account));
      expect((await pay(`${server.url}/r`)).status).to.equal(200);
      const again = await fetch(`${server.url}/r`, { headers: { [header]: String(sent) } });
      expect([again.status, server.runs()]).to.deep.equal([402, 1]);
      expect(await world.transfers(payer.address)).to.deep.equal([1_000n]);
    });
  }

  it("lists what it supports as both versions' clients read it", async () => {
    const first = await v1.verify().useFacilitator({ url: world.facilitatorUrl }).supported();
    expect(first.kinds).to.deep.include({ x402Version: 1, scheme: "exact", network: V1_NETWORK });
    v1.types().SupportedPaymentKindsResponseSchema.parse({
      kinds: first.kinds.filter(({ x402Version }) => x402Version === 1),
    });
    const second = await new (v2.server().HTTPFacilitatorClient)({ url: world.facilitatorUrl }).getSupported();
    expect(second.kinds).to.deep.include({ x402Version: 2, scheme: "exact", network: CAIP2 });
    expect(Object.keys(second.signers)).to.deep.equal([CAIP2]);
  });

  for (const name of Object.keys(STOCK_SERVERS) as StockServer[]) {
    it(`serves fifty payers of ${name} at once, each paid once`, async () => {
      const server = await STOCK_SERVERS[name](world, world.facilitatorUrl, { prices: { "/r": "$0.01" } });
      started.push(server);
      const client = clientsOf(world)[name.startsWith("@") ? "@x402/fetch" : "x402-fetch"];
      const payers = await Promise.all(Array.from({ length: 50 }, () => world.payer()));
      const answers = await Promise.all(payers.map((payer) => client?.pay(`${server.url}/r`, payer)));
      const unpaid = answers.filter((answer) => answer?.status !== 200);
      expect(unpaid, JSON.stringify(unpaid)).to.deep.equal([]);
      expect(answers.every((answer) => answer?.receipt?.success)).to.equal(true);
      const moved = await Promise.all(payers.map(({ address }) => world.transfers(address)));
      expect(moved).to.deep.equal(Array(50).fill([10_000n]));
      expect(server.runs()).to.equal(50);
    });
  }
});

/** The payload with fields of its inner part changed, whatever the version. */
function changed(
  payload: object,
  { signature, authorization }: { signature?: string; authorization?: object },
): object {
  const { payload: inner, ...rest } = payload as { payload: { signature: string; authorization: object } };
  return {
    ...rest,
    payload: { signature: signature ?? inner.signature, authorization: { ...inner.authorization, ...authorization } },
  };
}

function poorAccount() {
  const key: Hex = `0x${"77".repeat(32)}`;
  const account = testAccount(key);
  return { key, account, address: account.address };
}
