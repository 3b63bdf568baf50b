/** HA20: which answers a route charges for. Without `chargeFor` those below 400; with it, fewer. */
import { expect } from "chai";
import type { GateOptions, Provider } from "turnpike/gate";
import type { AcceptEntryWire } from "turnpike/protocol";
import {
  ONE_TIME,
  paidHeaders,
  quoteOf,
  RESERVING,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { ADAPTERS, type AdapterServer, type Handled, PREFIX } from "../support/frameworks";
import { v1Headers, v2Headers } from "../support/standard";

const gateOf = (more: object) => ({ pricing: ONE_TIME, settle: "after", ...more }) as GateOptions<never>;

const PAYMENTS: Readonly<Record<string, (url: string) => Promise<Record<string, string>>>> = {
  "version 1": async (url) => v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire),
  "version 2": async (url) => v2Headers(url),
};

for (const [name, start] of Object.entries(ADAPTERS)) {
  describe(`what a route charges for, through ${name}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: AdapterServer;
    let next: () => Handled;
    let faulty: (status: number) => unknown;
    const log = console.error;

    before(async () => {
      console.error = () => undefined;
      facilitator = await startSmallFacilitator();
      facilitator.supported = RESERVING;
      provider = testProvider(facilitator, { replay: {} });
      const routes: Readonly<Record<string, GateOptions<never>>> = {
        "/default": gateOf({}),
        "/content": gateOf({ chargeFor: (status: number) => status === 200 || status === 404 }),
        "/faulty": gateOf({ chargeFor: (status: number) => faulty(status) }),
      };
      server = await start(
        provider,
        Object.entries(routes).map(([path, gate]) => ({ path, gate, handle: () => next() })),
      );
      await provider.ready();
    });
    const forget = (): void => {
      facilitator.calls.length = 0;
      facilitator.reserved.clear();
    };
    beforeEach(forget);
    after(async () => {
      console.error = log;
      await server.stop();
      await provider.close();
      await facilitator.stop();
    });

    const at = (path: string) => `${server.url}${PREFIX}${path}`;
    const settles = () => facilitator.calls.filter(({ path }) => path === "/settle").length;
    const answers = (status: number): (() => Handled) =>
      status === 302
        ? () => ({ status, headers: { Location: "/elsewhere" } })
        : () => ({ status, body: status === 204 ? "" : "the content" });

    for (const [payment, pay] of Object.entries(PAYMENTS)) {
      it(`HA20 sells a 204 and a redirect by ${payment}, and no 404`, async () => {
        for (const [status, charged] of [
          [204, 1],
          [302, 2],
          [404, 2],
        ] as const) {
          next = answers(status);
          const headers = await pay(at("/default"));
          expect((await send(at("/default"), { headers })).status).to.equal(status);
          expect(settles(), `${status}`).to.equal(charged);
        }
      });

      it(`HA20 charges nothing by ${payment} for a status that chargeFor leaves out, nor for a 404 that it names`, async () => {
        for (const status of [204, 302, 404]) {
          next = answers(status);
          const headers = await pay(at("/content"));
          const free = await send(at("/content"), { headers });
          expect(free.status).to.equal(status);
          expect(free.headers, `${status}`).not.to.have.any.keys("x-payment-response", "payment-response");
          expect([settles(), facilitator.reserved.size], `${status}`).to.deep.equal([0, 0]);
          next = answers(200);
          const sold = await send(at("/content"), { headers });
          expect([sold.status, sold.text, settles()]).to.deep.equal([200, "the content", 1]);
          forget();
        }
      });
    }

    it("HA20 sends no answer and charges nothing where chargeFor throws or is undecided", async () => {
      next = answers(200);
      for (const fault of [
        () => {
          throw new TypeError("a secret of the provider");
        },
        () => undefined,
        async () => true,
      ]) {
        faulty = fault;
        const headers = await v1Headers((await quoteOf(at("/faulty"))).accepts[0] as AcceptEntryWire);
        const answer = await send(at("/faulty"), { headers });
        expect([answer.status, settles(), facilitator.reserved.size]).to.deep.equal([500, 0, 0]);
        expect(answer.text).not.to.match(/the content|a secret/);
        faulty = () => true;
        expect((await send(at("/faulty"), { headers })).text, "the payment is unused").to.equal("the content");
        forget();
      }
    });

    it("HA20 asks nothing of a proof, whose payment has settled", async () => {
      next = answers(204);
      const headers = await paidHeaders(at("/content"));
      expect((await send(at("/content"), { headers })).status).to.equal(204);
      expect((await send(at("/content"), { headers })).headers["idempotency-replayed"]).to.equal("true");
    });
  });
}

describe("the option chargeFor", () => {
  it("HA20 is refused where it could have no effect", async () => {
    const facilitator = await startSmallFacilitator();
    const provider = testProvider(facilitator);
    try {
      const chargeFor = () => true;
      expect(() => provider.gate(gateOf({ chargeFor, settle: "before" }))).to.throw(/chargeFor .*settle is "before"/);
      expect(() => provider.gate(gateOf({ chargeFor: [200] }))).to.throw(/chargeFor is no function/);
    } finally {
      await provider.close();
      await facilitator.stop();
    }
  });
});
