/** This project's agent at a Next.js application that sells by the stock @x402/next, which has no client. */
import { expect } from "chai";
import { memoryLedger } from "turnpike/agent";
import { agentOf } from "./support/clients";
import type { Served } from "./support/gates";
import { STOCK_SERVERS } from "./support/stock-servers";
import { type InteropWorld, startInteropWorld } from "./support/world";

const PRICE = 10_000n;

/** More than any buffer on the way holds, and no two lines alike. */
const LARGE = Array.from({ length: 200_000 }, (_, n) => `line ${n}\n`).join("");

/** What moves for a route that fails, by form and path: the proxy settles before the route runs. */
const FORMS = [
  { form: "@x402/next, withX402", charged: { "/missing": [], "/missing-upfront": [PRICE] } },
  { form: "@x402/next, proxy", charged: { "/missing": [PRICE], "/missing-upfront": [PRICE] } },
] as const;

for (const { form, charged } of FORMS) {
  describe(`interop > ${form}`, function () {
    // Many real blocks, on machines that may be slow.
    this.timeout(240_000);
    let world: InteropWorld;
    let server: Served;

    before(async () => {
      world = await startInteropWorld();
      const paths = ["/report", "/large", ...Object.keys(charged)];
      server = await STOCK_SERVERS[form](world, world.facilitatorUrl, {
        prices: Object.fromEntries(paths.map((path) => [path, "$0.01"])),
        upfront: ["/missing-upfront"],
        status: (path) => (path.startsWith("/missing") ? 404 : 200),
        body: (path) => (path === "/large" ? LARGE : `{"of":"${path}"}`),
      });
    });
    after(async () => {
      await server.stop();
      await world.stop();
    });

    /** An agent, and each credential that it sends. */
    async function buyer() {
      const payer = await world.payer();
      const credentials: string[] = [];
      const send: typeof fetch = (input, init) => {
        const value = new Request(input, init).headers.get("PAYMENT-SIGNATURE");
        if (value !== null) credentials.push(value);
        return fetch(input, init);
      };
      const agent = agentOf(world, payer, 100_000n, memoryLedger(), send);
      return { agent, credentials, moved: () => world.transfers(payer.address) };
    }

    it("gets a body of two megabytes whole, for one transfer that its receipt names", async () => {
      const { agent, credentials, moved } = await buyer();
      const paid = await agent.pay(`${server.url}/large`);
      expect(paid.status).to.equal(200);
      expect((await paid.text()) === LARGE).to.equal(true);
      const receipt = await world.chain.provider.getTransactionReceipt(String(paid.receipt?.transaction));
      expect([receipt?.status, await moved(), credentials.length]).to.deep.equal([1, [PRICE], 1]);
      await agent.close();
    });

    it("serves nothing for a proof that comes again, also at another route, and moves nothing", async () => {
      const { agent, credentials, moved } = await buyer();
      expect((await agent.pay(`${server.url}/report`)).status).to.equal(200);
      await agent.close();
      const runs = server.runs();
      for (const path of ["/report", "/large"]) {
        const again = await fetch(`${server.url}${path}`, { headers: { "PAYMENT-SIGNATURE": String(credentials[0]) } });
        expect([again.status, await again.text()], path).to.deep.equal([402, "{}"]);
      }
      expect([server.runs() - runs, await moved()]).to.deep.equal([0, [PRICE]]);
    });

    for (const [path, expected] of Object.entries(charged)) {
      const isCharged = expected.length > 0;
      it(`answers 404 at ${path} ${isCharged ? "after it is paid" : "unpaid"}, and the agent writes that down`, async () => {
        const { agent, credentials, moved } = await buyer();
        const answer = await agent.pay(`${server.url}${path}`);
        expect([answer.status, await answer.text()]).to.deep.equal([404, `{"of":"${path}"}`]);
        expect(answer.receipt?.transaction !== undefined).to.equal(isCharged);
        const [entry] = await agent.payments();
        expect([entry?.state, await moved()]).to.deep.equal([isCharged ? "served" : "signed", expected]);
        // What was charged is a purchase that is over; else the same signature is sent again.
        await agent.pay(`${server.url}${path}`);
        expect(new Set(credentials).size).to.equal(isCharged ? 2 : 1);
        expect(await moved()).to.deep.equal([...expected, ...expected]);
        await agent.close();
      });
    }
  });
}
