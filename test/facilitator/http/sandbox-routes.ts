import { expect } from "chai";
import { TurnpikeError } from "turnpike/protocol";
import { createApp } from "../../../facilitator/src/http/app";
import type { Sandbox } from "../../../facilitator/src/http/services";
import { unusedServices } from "../../support/unused-services";

const HOST = "127.0.0.1:8402";
const KEY = "tpk_of_the_sandbox";

/** An app that knows one key, over a sandbox that only counts, or over none. */
function serve(sandbox?: Sandbox) {
  const admit = async (authorization: string | null) => {
    if (authorization !== `Bearer ${KEY}`) throw new TurnpikeError("InvalidApiKey");
    return { provider: "0x0", keyId: "k", scopes: ["read"], isOperator: false };
  };
  const app = createApp(unusedServices({ sandbox, admit }));
  return async (path: string, headers: Record<string, string> = {}, body?: unknown): Promise<number> => {
    const answer = await app.request(`http://${HOST}${path}`, {
      headers: { host: HOST, ...(body !== undefined && { "content-type": "application/json" }), ...headers },
      ...(body !== undefined && { method: "POST", body: JSON.stringify(body) }),
    });
    return answer.status;
  };
}

function counting() {
  const moves: unknown[] = [];
  let isFree = true;
  const sandbox: Sandbox = {
    providerKey: () => KEY,
    clock: async () => ({ now: 1_800_000_000 }),
    advance: async (by) => {
      if (!isFree) return false;
      moves.push(by);
      isFree = false;
      return true;
    },
  };
  return { sandbox, moves };
}

const own = { origin: `http://${HOST}` };
const bearer = { authorization: `Bearer ${KEY}` };

describe("Facilitator: the sandbox's own routes", () => {
  it("do not exist in a service that is no sandbox, for any client", async () => {
    const ask = serve();
    for (const path of ["/sandbox/session", "/sandbox/clock"]) {
      expect(await ask(path, { ...own, ...bearer }), path).to.equal(404);
      expect(await ask(path, { ...own, ...bearer }, {}), path).to.equal(404);
    }
  });

  it("B22 give the key to the sandbox's own page alone: to no other site, and to no name that leads here", async () => {
    const ask = serve(counting().sandbox);
    expect(await ask("/sandbox/session", own, {})).to.equal(200);
    const strangers: Record<string, string>[] = [
      {},
      { origin: "null" },
      { origin: "https://evil.example" },
      { origin: "http://127.0.0.1:8403" },
      { origin: `https://${HOST}` },
      { host: "evil.example:8402", origin: "http://evil.example:8402" },
    ];
    for (const headers of strangers)
      expect(await ask("/sandbox/session", headers, {}), JSON.stringify(headers)).to.equal(403);
  });

  it("B22 move the clock for who has the key, on the sandbox's page or outside of any", async () => {
    const { sandbox, moves } = counting();
    const ask = serve(sandbox);
    const month = { seconds: 2_592_000 };
    expect(await ask("/sandbox/clock", own, month)).to.equal(401);
    expect(await ask("/sandbox/clock", { ...bearer, origin: "https://evil.example" }, month)).to.equal(403);
    expect(moves).to.deep.equal([]);
    for (const wrong of [
      {},
      { seconds: 0 },
      { seconds: 1e9 },
      { seconds: 1.5 },
      { to: "never" },
      { ...month, to: "next-renewal" },
    ])
      expect(await ask("/sandbox/clock", { ...bearer, ...own }, wrong), JSON.stringify(wrong)).to.equal(400);
    expect(await ask("/sandbox/clock", { ...bearer, ...own }, month)).to.equal(202);
    expect(await ask("/sandbox/clock", bearer, { to: "next-renewal" })).to.equal(429);
    expect(moves).to.deep.equal([month]);
    expect(await ask("/sandbox/clock", bearer)).to.equal(200);
  });
});
