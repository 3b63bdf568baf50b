/** HA23: a body whose parts come slowly settles first, and leaves then. The time is moved by hand, not waited for. */
import { createServer } from "node:http";
import { expect } from "chai";
import { gated, type Provider } from "turnpike/gate";
import { fetchGate } from "turnpike/gate/fetch";
import type { AcceptEntryWire, PaymentRequiredWire } from "turnpike/protocol";
import { MAX_WITHHELD_MS } from "../../../../sdk/src/gate/core/payment";
import { type Deferred, deferred } from "../../../../sdk/src/protocol/exchange";
import {
  closeServer,
  listen,
  ONE_TIME,
  quoteOf,
  RESERVING,
  type SmallFacilitator,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { v1Headers } from "../support/standard";

describe("an answer that is withheld, and comes in parts", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let passTime: (() => void) | undefined;
  /** ends the answer by its last part */
  let last: Deferred<void>;

  beforeEach(async () => {
    passTime = undefined;
    last = deferred();
    facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    provider = testProvider(facilitator, { publicUrl: "https://api.example" });
    await provider.ready();
  });
  afterEach(async () => {
    await provider.close();
    await facilitator.stop();
  });

  const settles = () => facilitator.calls.filter(({ path }) => path === "/settle").length;

  /** Takes the timers of the withheld time, from now until `restore`: nothing else of the gate runs meanwhile. */
  function takeTimers() {
    const own = globalThis.setTimeout;
    const taken: (() => void)[] = [];
    globalThis.setTimeout = ((callback: () => void, delayMs?: number, ...args: unknown[]) => {
      if (delayMs !== MAX_WITHHELD_MS) return own(callback, delayMs, ...args);
      taken.push(callback);
      return own(() => undefined, 0);
    }) as typeof setTimeout;
    const restore = (): void => {
      globalThis.setTimeout = own;
    };
    return { taken, restore };
  }

  async function expectSettledWhenLate(answering: Promise<Response>): Promise<void> {
    await until(async () => passTime !== undefined);
    expect(settles()).to.equal(0);
    passTime?.();
    const answer = await answering;
    expect([answer.status, settles()]).to.deep.equal([200, 1]);
    expect(answer.headers.get("payment-response"), "the receipt").not.to.equal(null);
    last.resolve();
    expect(await answer.text()).to.equal("the first part, the second part, the last part");
    expect(settles()).to.equal(1);
  }

  it("HA23 is settled by node:http once it has taken too long, and not before", async () => {
    const server = createServer(
      gated(provider.paymentGate({ pricing: ONE_TIME }), (_request, response) => {
        const timers = takeTimers();
        response.write("the first part, ");
        response.write("the second part, ");
        timers.restore();
        expect(timers.taken, "one timer, from the first part on").to.have.length(1);
        [passTime] = timers.taken;
        void last.promise.then(() => response.end("the last part"));
      }),
    );
    const url = `${await listen(server)}/paid`;
    try {
      const headers = await v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire);
      await expectSettledWhenLate(fetch(url, { headers }));
    } finally {
      await closeServer(server);
    }
  });

  it("HA23 is settled by fetch once it has taken too long, and not before", async () => {
    const handle = fetchGate(provider.gate({ pricing: ONE_TIME }))(() => {
      const timers = takeTimers();
      const parts = ["the first part, ", "the second part, "];
      const body = new ReadableStream<Uint8Array>(
        {
          async pull(controller) {
            timers.restore();
            [passTime] = timers.taken;
            const part = parts.shift();
            if (part !== undefined) return controller.enqueue(new TextEncoder().encode(part));
            await last.promise;
            controller.enqueue(new TextEncoder().encode("the last part"));
            controller.close();
          },
        },
        { highWaterMark: 0 },
      );
      return new Response(body);
    });
    const url = "https://api.example/paid";
    const { accepts } = (await (await handle(new Request(url))).json()) as PaymentRequiredWire;
    const headers = await v1Headers(accepts[0] as AcceptEntryWire);
    await expectSettledWhenLate(handle(new Request(url, { headers })));
  });
});
