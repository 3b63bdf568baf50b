import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { expect } from "chai";
import { problemOf } from "turnpike/facilitator";
import { TurnpikeError } from "turnpike/protocol";
import { createFacilitatorSender } from "../../../../sdk/src/gate/provider/create-meter";
import { idHashOf } from "../../../support/metered-chain";

const KEY = "tk_test_key_of_no_worth";
const idOf = (place: number) => ({ idHash: ITEMS[place]?.idHash, index: ITEMS[place]?.index });
const settled = (place: number) => ({ ...idOf(place), status: "settled", transaction: `0x${"ab".repeat(32)}` });
const failed = (place: number) => ({ ...idOf(place), status: "failed", code: "InsufficientFunds", message: "empty" });
const ITEMS = [
  { idHash: idHashOf(1), amount: 5n, index: 0 },
  { idHash: idHashOf(2), amount: 6n, index: 3 },
];

describe("Debits through a Facilitator", () => {
  let server: Server;
  let url: string;
  let answer: { status: number; body: unknown };
  let seen: { url: string | undefined; authorization: string | undefined; body: unknown }[];

  beforeEach(async () => {
    seen = [];
    server = createServer((request, response) => {
      let text = "";
      request.on("data", (chunk) => {
        text += chunk;
      });
      request.on("end", () => {
        seen.push({ url: request.url, authorization: request.headers.authorization, body: JSON.parse(text) });
        response.writeHead(answer.status, { "content-type": "application/json" }).end(JSON.stringify(answer.body));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  });
  afterEach(() => new Promise((resolve) => server.close(resolve)));

  async function outcomeOf(status: number, body: unknown) {
    answer = { status, body };
    const sender = createFacilitatorSender({ url, apiKey: KEY });
    const { payload } = await sender.prepare(ITEMS);
    return sender.outcome(ITEMS, [payload ?? ""]);
  }

  it("sends amounts as strings with the API key, and returns each item's outcome", async () => {
    const outcome = await outcomeOf(200, [settled(0), failed(1)]);
    expect(outcome).to.deep.equal({
      kind: "final",
      results: [{ kind: "settled" }, { kind: "failed", reason: "InsufficientFunds" }],
    });
    expect(seen).to.deep.equal([
      {
        url: "/debits",
        authorization: `Bearer ${KEY}`,
        body: [
          { idHash: idHashOf(1), amount: "5", index: 0 },
          { idHash: idHashOf(2), amount: "6", index: 3 },
        ],
      },
    ]);
  });

  it("waits while one item is pending, and ignores an answer about other items", async () => {
    expect(await outcomeOf(202, [settled(0), { ...idOf(1), status: "pending" }])).to.deep.equal({ kind: "pending" });
    for (const partial of [[settled(0)], [settled(1), settled(0)], [settled(0), settled(1), settled(1)]]) {
      const error = await outcomeOf(200, partial).catch((reason) => reason);
      expect(error.code).to.equal("Unavailable");
    }
  });

  it("treats an unreadable answer as an unknown outcome, never as a failure", async () => {
    for (const [status, body] of [
      [500, {}],
      [401, problemOf(new TurnpikeError("InvalidApiKey"))],
      [403, problemOf(new TurnpikeError("ScopeMissing"))],
      [429, problemOf(new TurnpikeError("RateLimited"))],
      [200, { debits: "none" }],
      [200, [{ ...idOf(0), status: "lost" }, settled(1)]],
    ] as const) {
      const error = await outcomeOf(status, body).catch((reason) => reason);
      expect(error.code, `${status}`).to.equal("Unavailable");
      expect(String(error.message)).not.to.include(KEY);
    }
  });
});
