/** Every exported function of the package, called with values of other types than it takes. */
import { expect } from "chai";
import fc from "fast-check";
import * as main from "turnpike";
import * as agent from "turnpike/agent";
import * as fileLedger from "turnpike/agent/file-ledger";
import * as chain from "turnpike/chain";
import * as facilitator from "turnpike/facilitator";
import * as gate from "turnpike/gate";
import * as express from "turnpike/gate/express";
import * as fastify from "turnpike/gate/fastify";
import * as fetchGates from "turnpike/gate/fetch";
import * as hono from "turnpike/gate/hono";
import * as next from "turnpike/gate/next";
import * as node from "turnpike/gate/node";
import * as postgres from "turnpike/gate/postgres";
import * as redis from "turnpike/gate/redis";
import * as mcpClient from "turnpike/mcp/client";
import * as mcpClient2 from "turnpike/mcp/client/v2";
import * as mcpServer from "turnpike/mcp/server";
import * as mcpServer2 from "turnpike/mcp/server/v2";
import { runWallet } from "turnpike/mcp/wallet";
import * as protocol from "turnpike/protocol";
import { ERRORS, isTurnpikeError } from "turnpike/protocol";
import * as testing from "turnpike/testing";
import manifest from "../../sdk/package.json";
import { isEveryVariant } from "../support/variants";

const ENTRY_POINTS = {
  turnpike: main,
  "turnpike/agent": agent,
  "turnpike/agent/file-ledger": fileLedger,
  "turnpike/gate": gate,
  "turnpike/gate/express": express,
  "turnpike/gate/fastify": fastify,
  "turnpike/gate/fetch": fetchGates,
  "turnpike/gate/hono": hono,
  "turnpike/gate/next": next,
  "turnpike/gate/node": node,
  "turnpike/gate/postgres": postgres,
  "turnpike/gate/redis": redis,
  "turnpike/chain": chain,
  "turnpike/facilitator": facilitator,
  "turnpike/mcp/client": mcpClient,
  "turnpike/mcp/client/v2": mcpClient2,
  "turnpike/mcp/server": mcpServer,
  "turnpike/mcp/server/v2": mcpServer2,
  "turnpike/protocol": protocol,
  "turnpike/testing": testing,
};

/** Of one function, with what the seed draws. */
const CALLS = isEveryVariant ? 60 : 6;

/** No texts: a function that takes a path would write there. */
const scalar = fc.oneof(
  fc.constantFrom(undefined, null, Number.NaN, Symbol("wrong"), new Date(0), () => undefined, Object.create(null)),
  fc.boolean(),
  fc.integer(),
  fc.bigInt({ min: -5n, max: 5n }),
);

const names = fc.constantFrom(
  ..."pricing network url urls folder path secret facilitator token wallet policy facilitators provider plan".split(
    " ",
  ),
  ..."request type amount price signers client pool headers accepts warn rpc target deployment turnpike".split(" "),
  ..."idHash index first terms clock version payer planId sign key signer units chainId domain message".split(" "),
  ..."intervalSec months unit count paymentPayload permit2Authorization scopes origin topics".split(" "),
);

const wrong = fc.oneof(
  { weight: 2, arbitrary: scalar },
  fc.array(scalar, { maxLength: 2 }),
  fc.dictionary(
    names,
    fc.oneof(scalar, fc.array(scalar, { maxLength: 2 }), fc.dictionary(names, scalar, { maxKeys: 2 })),
    {
      maxKeys: 5,
    },
  ),
);

const isClass = (value: unknown): boolean =>
  typeof value === "function" && /^class\b/.test(Function.prototype.toString.call(value));

describe("functions that are given values of other types", () => {
  const refusesAll = (call: (...args: readonly unknown[]) => unknown) =>
    fc.assert(
      fc.asyncProperty(fc.array(wrong, { maxLength: 4 }), async (args) => {
        try {
          const made = await call(...args);
          (made as { close?: () => unknown } | undefined)?.close?.();
        } catch (error) {
          if (!isTurnpikeError(error)) throw error;
          expect(error.message).to.not.equal(ERRORS[error.code].cause);
          expect(error.remedy).to.have.length.greaterThan(10);
        }
      }),
      { numRuns: CALLS, seed: 20_261_129 },
    );

  const payer = agent.createAgent({
    wallet: agent.walletFromKey(`0x${"11".repeat(32)}`),
    policy: { perPayment: 1, perDay: 1 },
    facilitators: ["http://127.0.0.1:9"],
    fetch: () => Promise.reject(new TypeError("fetch failed")),
    sleep: async () => undefined,
  });
  const double = testing.createTestProvider();
  const { provider } = double;
  const away = { url: "http://127.0.0.1:9", fetch: () => Promise.reject(new TypeError("fetch failed")) };
  const rpc = chain.connectRpc({ urls: away.url, chainId: 1 });
  after(() => Promise.all([main.close(), payer.close(), provider.close(), rpc.close()]));
  const objects = {
    "an agent": payer,
    "a provider": provider,
    "a Facilitator's client": facilitator.createFacilitatorClient(away),
    "a catalogue's client": facilitator.createDiscoveryClient(away),
    "an RPC": { send: rpc.send },
    "a test's provider": { ...double, install: undefined },
    "a test's clock": testing.manualClock(),
  };
  for (const [of, methods] of Object.entries(objects)) {
    for (const [name, method] of Object.entries(methods)) {
      if (typeof method !== "function" || name === "close") continue;
      it(`throw errors of this package: ${name} of ${of}`, () => refusesAll(method as () => unknown));
    }
  }

  it("cover every entry point", () => {
    const named = Object.keys(manifest.exports).map((path) => path.replace(/^\./, "turnpike"));
    // A wallet that starts reads this process's standard input.
    const others = ["turnpike/package.json", "turnpike/mcp/wallet"];
    expect([...Object.keys(ENTRY_POINTS), ...others]).to.have.members(named);
  });

  it("refuse a handler that is none where it is wrapped, not at its first request", () => {
    const paid = { provider, pricing: [{ type: "one-time", price: "$1" }] } as const;
    const wrapped = [
      () => node.gated(undefined as never, () => undefined),
      () => node.gated(node.paymentGate(paid), {} as never),
      () => fetchGates.paymentGate(paid)(undefined as never),
      () => next.paymentGate(paid)({} as never),
    ];
    for (const wrap of wrapped) expect(wrap).to.throw(main.ConfigError, /^(gate|handler) is /);
  });

  it("refuse to run a wallet by options of other types", async () => {
    for (const options of [undefined, null, 5, "wallet.json", { configFile: 5 }, { env: "x" }, { config: "x" }]) {
      const refused = await runWallet(options as never).catch((error: unknown) => error);
      expect(isTurnpikeError(refused), String(refused)).to.equal(true);
    }
  });

  for (const [entryPoint, exported] of Object.entries(ENTRY_POINTS)) {
    for (const [name, value] of Object.entries(exported)) {
      if (typeof value !== "function" || isClass(value) || value === Buffer) continue;
      it(`throw errors of this package: ${name} of ${entryPoint}`, () => refusesAll(value as () => unknown));
    }
  }
});
