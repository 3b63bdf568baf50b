import { expect } from "chai";
import type { Deduction } from "turnpike/gate";
import type { Hex } from "turnpike/protocol";
import { createTestProvider, type TestProvider } from "turnpike/testing";
import { send } from "../../../support/gate";
import { ADAPTERS, type AdapterServer, PREFIX } from "../support/frameworks";

for (const [name, start] of Object.entries(ADAPTERS)) {
  describe(`a charge that is refused, through ${name}`, () => {
    let world: TestProvider;
    let server: AdapterServer;
    let planId: Hex;
    const logged: unknown[] = [];
    const log = console.error;

    before(async () => {
      console.error = (...words: unknown[]) => void logged.push(words);
      world = createTestProvider();
      ({ planId } = world.addPlan({ planId: `0x${"5b".repeat(32)}` }));
      const pricing = [{ type: "subscription", plan: planId }] as const;
      server = await start(world.provider, [
        {
          path: "/throws",
          gate: { pricing } as never,
          handle: async ({ payment }) => ({ body: String((await payment.deduct(5n)).charged) }),
        },
        {
          path: "/copes",
          gate: { pricing } as never,
          handle: async ({ payment }) => {
            const { charged } = await payment.deduct(5n).catch((): Pick<Deduction, "charged"> => ({ charged: 0n }));
            return { body: `charged ${charged}` };
          },
        },
      ]);
    });
    after(async () => {
      console.error = log;
      await server.stop();
    });

    it("becomes a 402 that says what to do, and no stack in the log", async () => {
      const { headers } = world.subscribe({ planId, maxOverage: 0n });
      const answer = await send(`${server.url}${PREFIX}/throws`, { headers: headers as Record<string, string> });
      expect([answer.status, answer.json?.error], answer.text).to.deep.equal([402, "AllowanceExhausted"]);
      expect(answer.json.accepts).to.have.length(1);
      expect(answer.headers["cache-control"]).to.match(/no-store/);
      // Express logs in a later turn.
      await send(`${server.url}${PREFIX}/none`);
      expect(logged).to.deep.equal([]);
    });

    it("is the handler's to cope with", async () => {
      const { headers } = world.subscribe({ planId, maxOverage: 0n });
      const answer = await send(`${server.url}${PREFIX}/copes`, { headers: headers as Record<string, string> });
      // Known to be metered after the first: then nobody is served who has nothing left.
      expect([answer.status, answer.text]).to.deep.equal([200, "charged 0"]);
      const { headers: rich } = world.subscribe({ planId, maxOverage: 100n });
      const served = await send(`${server.url}${PREFIX}/copes`, { headers: rich as Record<string, string> });
      expect(served.text).to.equal("charged 5");
    });
  });
}
