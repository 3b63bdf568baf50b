import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { Webhook } from "standardwebhooks";
import { verifyWebhook } from "turnpike/facilitator";
import { closeAll, type Seen, type StandIn, serve } from "../agent/support/servers";
import { addressOf, CHAIN_ID, NETWORK, TURNPIKE } from "../agent/support/world";
import { expectCode, removeTerminals, type Terminal, terminal } from "./support/run";

const API_KEY = `tpk_${"0".repeat(16)}_${"x".repeat(43)}`;

const SUPPORTED = {
  kinds: [],
  extensions: [],
  signers: {},
  network: NETWORK,
  chainId: CHAIN_ID,
  turnpike: TURNPIKE,
  batchSettler: TURNPIKE,
  proofSigners: [addressOf("facilitator")],
  relayers: [],
  tokens: [],
};

const eventOf = (n: number, type = "plan.created") => ({
  id: `0x${n.toString(16).padStart(64, "0")}`,
  type,
  occurredAt: 1_800_000_000 + n,
  subject: `0x${"5e".repeat(32)}`,
  sequence: n,
  transaction: `0x${"7a".repeat(32)}`,
  reverted: false,
  data: { note: `event ${n}` },
});

describe("command line > listen", () => {
  /** the provider's event log */
  let log: ReturnType<typeof eventOf>[];
  /** faults of the next requests for events */
  let outages: number;
  let facilitator: StandIn;
  let shell: Terminal;
  beforeEach(async () => {
    log = [1, 2, 3].map((n) => eventOf(n));
    outages = 0;
    facilitator = await serve((request) => {
      const { pathname, searchParams } = new URL(request.url, "http://x");
      if (pathname === "/supported") return { status: 200, json: SUPPORTED };
      if (request.headers.authorization !== `Bearer ${API_KEY}`) {
        const json = {
          type: "urn:x",
          title: "x",
          status: 401,
          code: "InvalidApiKey",
          message: `no ${request.headers.authorization}`,
          retryable: false,
        };
        return { status: 401, json };
      }
      if (outages-- > 0) return { status: 503, json: {} };
      const after = Number(searchParams.get("cursor"));
      const events = log.slice(after, after + Number(searchParams.get("limit")));
      return { status: 200, json: { events, next: String(after + events.length) } };
    });
    shell = terminal({ TURNPIKE_FACILITATOR_URL: facilitator.url, TURNPIKE_API_KEY: API_KEY });
  });
  afterEach(async () => {
    removeTerminals();
    await closeAll();
  });

  const secretFile = () => join(shell.home, "webhook-secret");
  const listenTo = (url: string, ...flags: string[]) => shell.run("listen", "--forward-to", url, ...flags);

  it("forwards the log from a cursor on, signed so that verifyWebhook and stock libraries accept it", async () => {
    const mine = await serve(() => ({ status: 204 }));
    const ran = await listenTo(`${mine.url}/hook`, "--cursor", "1", "--count", "2", "--json");
    expectCode(ran, 0);
    const secret = readFileSync(secretFile(), "utf8").trim();
    expect(statSync(secretFile()).mode & 0o077, "readable by nobody else").to.equal(0);
    expect(mine.seen.map(({ method, url }) => `${method} ${url}`)).to.deep.equal(["POST /hook", "POST /hook"]);
    for (const [index, { body, headers }] of mine.seen.entries()) {
      const source = log[index + 1];
      const event = JSON.parse(body);
      const { reverted: _reverted, ...kept } = source ?? eventOf(0);
      expect(event).to.deep.equal({ ...kept, network: NETWORK, chainId: CHAIN_ID });
      expect(new Webhook(secret).verify(body, headers as Record<string, string>)).to.deep.equal(event);
      // The data of this test is of no real plan, which verifyWebhook reports after the signature.
      expect(() => verifyWebhook(body, headers, secret)).to.throw("malformed");
      expect(() => verifyWebhook(`${body} `, headers, secret)).to.throw("no known secret");
    }
    const lines = ran.out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.map(({ eventId, delivered, status }) => [eventId, delivered, status])).to.deep.equal([
      [log[1]?.id, true, 204],
      [log[2]?.id, true, 204],
    ]);
  });

  it("forwards only new events without a cursor, and waits for them", async () => {
    const mine = await serve(() => ({ status: 200 }));
    shell.io.sleep = async () => {
      if (log.length === 3) log.push(eventOf(4));
    };
    expectCode(await listenTo(mine.url, "--count", "1"), 0);
    expect(mine.seen.map(({ body }) => JSON.parse(body).sequence)).to.deep.equal([4]);
  });

  it("forwards the named types alone, and prints with which cursor to continue", async () => {
    log = [eventOf(1), eventOf(2, "payment.settled"), eventOf(3)];
    const mine = await serve(() => ({ status: 200 }));
    const stopped = new AbortController();
    shell.io.signal = stopped.signal;
    shell.io.sleep = async () => stopped.abort(new Error("Ctrl-C"));
    const ran = await listenTo(mine.url, "--types", "payment.settled", "--cursor", "0");
    expectCode(ran, 0);
    expect(mine.seen.map(({ headers }) => headers["webhook-id"])).to.deep.equal([log[1]?.id]);
    expect(ran.err).to.contain("--cursor 3 continues");
  });

  it("CL11 continues where --count ended, with no event lost or repeated", async () => {
    const mine = await serve(() => ({ status: 200 }));
    log = [1, 2, 3, 4, 5].map((n) => eventOf(n, n % 2 === 0 ? "payment.settled" : "plan.created"));
    let cursor = "0";
    const got: number[] = [];
    for (const [count, next] of [
      ["2", "2"],
      ["1", "3"],
      ["2", "5"],
    ] as const) {
      const ran = await listenTo(mine.url, "--cursor", cursor, "--count", count);
      cursor = /--cursor (\d+) continues/.exec(ran.err)?.[1] ?? "none";
      expect(cursor).to.equal(next);
    }
    got.push(...mine.seen.map(({ body }) => JSON.parse(body).sequence));
    expect(got).to.deep.equal([1, 2, 3, 4, 5]);
    const ran = await listenTo(mine.url, "--cursor", "0", "--count", "2", "--types", "payment.settled");
    expect(ran.err).to.contain("--cursor 4 continues");
  });

  it("tries an event again under the same id, then reports it and ends with 1", async () => {
    const waits: number[] = [];
    shell.io.sleep = async (ms) => void waits.push(ms);
    const answers = [500, 204, 500, 302, 500, 500];
    const mine = await serve(() => ({
      status: answers.shift() ?? 500,
      headers: { location: `${facilitator.url}/elsewhere` },
    }));
    const ran = await listenTo(mine.url, "--cursor", "0", "--count", "2");
    expectCode(ran, 1);
    const ids = (seen: Seen[]) => seen.map(({ headers }) => [headers["webhook-id"], headers["webhook-attempt"]]);
    expect(ids(mine.seen)).to.deep.equal([
      [log[0]?.id, "1"],
      [log[0]?.id, "2"],
      ...["1", "2", "3", "4"].map((attempt) => [log[1]?.id, attempt]),
    ]);
    expect(waits).to.deep.equal([1_000, 1_000, 2_000, 4_000]);
    expect(ran.out).to.match(/HTTP 204 after 2 attempts\n.*NOT DELIVERED, HTTP 500 after 4 attempts\n$/);
    expect(
      facilitator.seen.some(({ url }) => url === "/elsewhere"),
      "redirects are not followed",
    ).to.equal(false);
  });

  it("waits for a Facilitator that cannot be reached, and loses nothing", async () => {
    outages = 2;
    const mine = await serve(() => ({ status: 200 }));
    const ran = await listenTo(mine.url, "--cursor", "0", "--count", "3");
    expectCode(ran, 0);
    expect(ran.err.match(/Trying again/g)).to.have.length(2);
    expect(mine.seen).to.have.length(3);
  });

  it("CL2 prints neither the API key nor the webhook secret, also where the Facilitator repeats the key", async () => {
    const mine = await serve(() => ({ status: 200 }));
    const fine = await listenTo(mine.url, "--cursor", "0", "--count", "1");
    const secret = readFileSync(secretFile(), "utf8").trim();
    shell.env.TURNPIKE_API_KEY = API_KEY.replace("x", "y");
    const refused = await listenTo(mine.url, "--cursor", "0", "--count", "1");
    expectCode(refused, 1);
    expect(refused.err).to.contain("InvalidApiKey");
    for (const { out, err } of [fine, refused]) {
      for (const hidden of [API_KEY, shell.env.TURNPIKE_API_KEY, secret]) expect(out + err).not.to.contain(hidden);
    }
  });

  it("CL9 sends the API key to no plain http address of another machine", async () => {
    shell.env.TURNPIKE_FACILITATOR_URL = "http://facilitator.example";
    shell.io.fetch = async () => {
      throw new Error("something was sent");
    };
    const ran = await listenTo("http://localhost:3000/", "--cursor", "0");
    expectCode(ran, 2);
    expect(ran.err).to.contain("Use https");
  });
});
