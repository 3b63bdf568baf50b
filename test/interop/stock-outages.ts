/** Stock clients at a gate whose Facilitator is overloaded, has not decided, answers another way, or is gone. */
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import { expect } from "chai";
import express from "express";
import type { Provider } from "turnpike/gate";
import { expressGate } from "turnpike/gate/express";
import { closeServer, listen } from "../support/gate";
import { type Client, clientsOf } from "./support/clients";
import { type InteropWorld, startInteropWorld } from "./support/world";

const FAULTS = {
  "is overloaded (503)": "busy",
  "has not decided": "undecided",
  "answers 202": "accepted",
  "settles, and its answer is lost": "lost",
  "is gone": "gone",
} as const;
type Fault = (typeof FAULTS)[keyof typeof FAULTS];

const CLIENTS = ["x402-fetch", "x402-axios", "@x402/fetch", "@x402/axios"] as const;

const PAYMENT_HEADERS = ["x-payment", "payment-signature"] as const;

interface Seen {
  readonly url: string;
  /** the header that pays, with its value */
  readonly payment: Readonly<Record<string, string>> | undefined;
  readonly status: number;
  readonly retryAfter: string | undefined;
}

describe("interop > stock clients at a gate whose Facilitator fails", function () {
  this.timeout(120_000);
  let world: InteropWorld;
  let faulty: Server;
  let provider: Provider;
  let server: Server;
  let url: string;
  let fault: Fault | undefined;
  let runs = 0;
  let paths = 0;
  let seen: Seen[] = [];

  before(async () => {
    world = await startInteropWorld();
    faulty = createServer((incoming, outgoing) => answer(incoming, outgoing));
    const facilitator = { url: await listen(faulty), signers: [world.facilitatorSigner] };
    provider = world.provider({ facilitator, facilitatorWaitMs: 1_500 });
    const app = express();
    app.use((request, response, next) => {
      response.on("finish", () => seen.push(seenOf(request, response)));
      next();
    });
    for (const settle of ["before", "after"] as const) {
      const gate = provider.gate({ pricing: [{ type: "one-time", amount: 10_000n }], settle });
      app.get(`/${settle}/:n`, expressGate(gate), (_request, response) => {
        response.json({ run: ++runs });
      });
    }
    server = createServer(app);
    url = await listen(server);
    await provider.ready();
  });
  after(async () => {
    await closeServer(server);
    await provider.close();
    await closeServer(faulty);
    await world.stop();
  });

  function seenOf(request: express.Request, response: express.Response): Seen {
    const name = PAYMENT_HEADERS.find((each) => request.headers[each]);
    return {
      url: request.originalUrl,
      payment: name && { [name]: String(request.headers[name]) },
      status: response.statusCode,
      retryAfter: response.getHeader("retry-after") as string | undefined,
    };
  }

  /** Passes a request on to the Facilitator, unless the fault is about it. */
  function answer(incoming: IncomingMessage, outgoing: ServerResponse): void {
    const { url: path = "", method, headers } = incoming;
    const isSettle = path === "/settle";
    const isAsked = isSettle || path === "/verify";
    const reply = (status: number, body: object) =>
      outgoing.writeHead(status, { "content-type": "application/json", "retry-after": "1" }).end(JSON.stringify(body));
    if (fault === "gone" && (isAsked || path === "/healthz")) return void incoming.socket.destroy();
    if (fault === "busy" && isAsked)
      return void reply(503, { code: "Unavailable", message: "too many", retryable: true });
    if (fault === "accepted" && isSettle) return void reply(202, { status: "pending" });
    const { hostname, port } = new URL(world.facilitatorUrl);
    const passed = httpRequest({ hostname, port, path, method, headers }, (answered) => {
      if (isSettle && (fault === "lost" || fault === "undecided")) {
        const pending = { success: false, errorReason: "settlement_pending", transaction: "", network: "base-sepolia" };
        const end = () => (fault === "lost" ? incoming.socket.destroy() : reply(200, pending));
        return void answered.resume().on("end", end);
      }
      outgoing.writeHead(answered.statusCode ?? 500, answered.headers);
      answered.pipe(outgoing);
    });
    passed.on("error", () => incoming.socket.destroy());
    incoming.pipe(passed);
  }

  const statusOf = (name: string, at: string, payer: Parameters<Client["pay"]>[1]): Promise<number | undefined> =>
    (clientsOf(world)[name] as Client).pay(at, payer).then(
      ({ status }) => status,
      (error: { response?: { status: number } }) => error.response?.status,
    );

  for (const name of CLIENTS)
    for (const settle of ["before", "after"] as const)
      for (const [what, failing] of Object.entries(FAULTS))
        it(`HA21 C6 ${name}, settling ${settle} the handler, the Facilitator ${what}: 503, and the same payment is charged and served once`, async () => {
          const payer = await world.payer();
          const at = `${url}/${settle}/${paths++}`;
          const charged = async () => (await world.transfers(payer.address)).length;
          [seen, fault] = [[], failing];
          const before = runs;
          const status = await statusOf(name, at, payer).finally(() => {
            fault = undefined;
          });
          expect(status).to.equal(503);
          expect(
            seen.map(({ status, payment }) => [status, payment !== undefined]),
            "it pays once, and does not try again",
          ).to.deep.equal([
            [402, false],
            [503, true],
          ]);
          expect(Number(seen[1]?.retryAfter)).to.be.above(0);
          expect(await charged()).to.equal(failing === "lost" || failing === "undecided" ? 1 : 0);

          const again = () => fetch(at, { headers: { ...seen[1]?.payment } });
          expect((await again()).status).to.equal(200);
          expect([await charged(), runs - before]).to.deep.equal([1, 1]);
          expect((await again()).status, "it buys no second run").to.equal(402);
          expect([await charged(), runs - before]).to.deep.equal([1, 1]);
        });

  it("a stock client that calls again after an unknown outcome signs and pays again: only the same payload does not", async () => {
    const payer = await world.payer();
    const at = `${url}/before/${paths++}`;
    fault = "lost";
    expect(await statusOf("@x402/fetch", at, payer)).to.equal(503);
    fault = undefined;
    expect(await statusOf("@x402/fetch", at, payer)).to.equal(200);
    expect(await world.transfers(payer.address)).to.have.length(2);
  });
});
