import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { gated } from "turnpike/gate";
import {
  addressOf,
  closeServer,
  keyOf,
  listen,
  ONE_TIME,
  RESERVING,
  type SmallFacilitator,
  startSmallFacilitator,
  testProvider,
} from "../support/gate";
import { tryAnswers } from "./support/answers";
import { type ReplayResult, startLiar, tryLies } from "./support/replays";
import { asksForPayment, type ServerResult, tryServer } from "./support/server";

async function all(url: string): Promise<ServerResult[]> {
  const results: ServerResult[] = [];
  for await (const result of tryServer(url)) results.push(result);
  return results;
}

describe("the hostile battery against servers", () => {
  it("finds nothing at this project's gate", async () => {
    const facilitator = await startSmallFacilitator();
    const provider = testProvider(facilitator, { publicUrl: "https://api.example" });
    const gate = provider.paymentGate({ pricing: ONE_TIME });
    const server = createServer(gated(gate, (_request, response) => response.end("content")));
    const url = `${await listen(server)}/api/paid`;
    try {
      expect(await asksForPayment(url)).to.equal(true);
      expect((await all(url)).filter(({ kind }) => kind === "unsafe")).to.deep.equal([]);
    } finally {
      await closeServer(server);
      await provider.close();
      await facilitator.stop();
    }
  }).timeout(60_000);

  it("detects a server that accepts a lie", async () => {
    const server = createServer(({ url, headers }, response) => {
      const payment = headers["x-payment"];
      // Two mistakes that gates make: a path compared as it came, and a payment that is only looked at.
      if (url !== "/api/paid" || String(payment).length > 500) response.end("content");
      else response.writeHead(402).end("{}");
    });
    const url = `${await listen(server)}/api/paid`;
    try {
      const unsafe = (await all(url)).filter(({ kind }) => kind === "unsafe").map(({ id }) => id);
      expect(unsafe).to.include.members(["target: a trailing slash", "target: upper case", "header: twice"]);
    } finally {
      await closeServer(server);
    }
  }).timeout(60_000);

  it("HA2 finds nothing at this project's gate with a Facilitator that lies, and detects a server that trusts it", async () => {
    const liar = await startLiar();
    const facilitator = { url: liar.url, signers: [addressOf("facilitator")] };
    const provider = testProvider({} as SmallFacilitator, {
      facilitator,
      clock: { nowSec: () => Math.floor(Date.now() / 1_000) },
    });
    const gate = provider.paymentGate({ pricing: ONE_TIME });
    const server = createServer(gated(gate, (_request, response) => response.end("content")));
    const gullible = createServer(async (request, response) => {
      const { "x-payment": header } = request.headers;
      const asked = await fetch(await urlOf(server), { headers: {} });
      if (header === undefined) return void response.writeHead(402).end(await asked.text());
      const settled = await fetch(`${liar.url}/settle`, { method: "POST", body: "{}" });
      response.end(JSON.stringify(await settled.json()));
    });
    try {
      const own: ReplayResult[] = [];
      for await (const each of tryLies(await listen(server))) own.push(each);
      expect(own.map(({ kind }) => kind)).to.deep.equal(Array(6).fill("safe"));
      expect(
        liar.seen.some(({ url }) => url === "/settle"),
        "it was asked",
      ).to.equal(true);
      const seen: ReplayResult[] = [];
      for await (const each of tryLies(await listen(gullible))) seen.push(each);
      expect(seen.map(({ kind }) => kind)).to.deep.equal(["unsafe", "unsafe"]);
      const trusting = testProvider({} as SmallFacilitator, {
        facilitator: { ...facilitator, trustUnsigned: true },
        clock: { nowSec: () => Math.floor(Date.now() / 1_000) },
      });
      const open = createServer(
        gated(trusting.paymentGate({ pricing: ONE_TIME }), (_request, response) => response.end("content")),
      );
      const accepted: ReplayResult[] = [];
      for await (const each of tryLies(await listen(open))) accepted.push(each);
      expect(
        accepted.map(({ kind }) => kind),
        "a lie without any grant",
      ).to.include("unsafe");
      await closeServer(open);
      await trusting.close();
    } finally {
      await closeServer(server);
      await closeServer(gullible);
      await provider.close();
      await liar.stop();
    }
  }).timeout(60_000);

  it("HA23 finds nothing in the answers of this project's gate, and detects a careless server's", async () => {
    const facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    const clock = { nowSec: () => Math.floor(Date.now() / 1_000) };
    const provider = testProvider(facilitator, { publicUrl: "https://api.example", replay: {}, clock });
    const gate = provider.paymentGate({ pricing: ONE_TIME });
    const server = createServer(
      gated(gate, async (request, response) => {
        if (request.method === "POST" && (await text(request).catch(() => undefined)) === undefined) return;
        if (request.headers["if-none-match"]) response.writeHead(304).end();
        else response.setHeader("Content-Length", "7").write("con") && response.end("tent");
      }),
    );
    // It serves any payment of one header, once, by half an upload too; and a page reads its 402, but cannot pay.
    const used = new Set<unknown>();
    const careless = createServer(async (request, response) => {
      const { "x-payment": payment, "if-none-match": condition, range } = request.headers;
      if (payment === undefined || request.headers["payment-signature"] !== undefined) {
        const asked = await fetch(await urlOf(server), { method: request.method ?? "GET" });
        response.writeHead(402, { "Access-Control-Allow-Origin": "*" }).end(await asked.text());
      } else if (condition) response.writeHead(304).end();
      else if (used.has(payment)) response.writeHead(request.method === "POST" ? 402 : 206).end(range && "content");
      else response.end(used.add(payment) && "content");
    });
    try {
      const found = async (url: string) => {
        const unsafe: string[] = [];
        for await (const { id, kind, saw } of tryAnswers(url, keyOf("payer")))
          if (kind === "unsafe") unsafe.push(`${id}: ${saw}`);
        return unsafe;
      };
      expect(await found(await listen(server))).to.deep.equal([]);
      expect((await found(await listen(careless))).map((each) => each.split(":")[0])).to.include.members([
        "HA23 If-None-Match",
        "HA23 one payload in both headers",
        "HA23 bought, and asked for again",
        "HA23 a page that reads the 402 can send the payment",
        "HA23 an upload that was cut, and then sent whole",
      ]);
    } finally {
      await closeServer(server);
      await closeServer(careless);
      await provider.close();
      await facilitator.stop();
    }
  }).timeout(60_000);
});

const urlOf = async (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
