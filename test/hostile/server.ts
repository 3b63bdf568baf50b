import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import { gated } from "turnpike/gate";
import {
  addressOf,
  closeServer,
  listen,
  ONE_TIME,
  type SmallFacilitator,
  startSmallFacilitator,
  testProvider,
} from "../support/gate";
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
});

const urlOf = async (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
