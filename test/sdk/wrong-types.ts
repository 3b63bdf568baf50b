/** Every exported function of the gate's and the agent's entry points, called with values of other types than it takes. */
import { expect } from "chai";
import fc from "fast-check";
import * as main from "turnpike";
import * as agent from "turnpike/agent";
import * as fileLedger from "turnpike/agent/file-ledger";
import * as gate from "turnpike/gate";
import * as express from "turnpike/gate/express";
import * as fastify from "turnpike/gate/fastify";
import * as fetchGates from "turnpike/gate/fetch";
import * as hono from "turnpike/gate/hono";
import * as next from "turnpike/gate/next";
import * as node from "turnpike/gate/node";
import * as postgres from "turnpike/gate/postgres";
import * as redis from "turnpike/gate/redis";
import { ERRORS, isTurnpikeError } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";

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
};

/** No texts: a function that takes a path would write there. */
const scalar = fc.oneof(
  fc.constantFrom(undefined, null, Number.NaN, Symbol("wrong"), new Date(0), () => undefined),
  fc.boolean(),
  fc.integer(),
  fc.bigInt({ min: -5n, max: 5n }),
);

const names = fc.constantFrom(
  ...[
    "pricing",
    "network",
    "url",
    "folder",
    "path",
    "secret",
    "facilitator",
    "token",
    "wallet",
    "policy",
    "facilitators",
  ],
  ...[
    "provider",
    "plan",
    "request",
    "type",
    "amount",
    "price",
    "signers",
    "client",
    "pool",
    "headers",
    "accepts",
    "warn",
  ],
);

const wrong = fc.oneof(
  { weight: 2, arbitrary: scalar },
  fc.array(scalar, { maxLength: 2 }),
  fc.dictionary(
    names,
    fc.oneof(scalar, fc.array(scalar, { maxLength: 2 }), fc.dictionary(names, scalar, { maxKeys: 2 })),
    {
      maxKeys: 3,
    },
  ),
);

const isClass = (value: unknown): boolean =>
  typeof value === "function" && /^class\b/.test(Function.prototype.toString.call(value));

describe("functions that are given values of other types", () => {
  const refusesAll = (call: (...args: readonly unknown[]) => unknown) =>
    fc.assert(
      fc.asyncProperty(fc.array(wrong, { maxLength: 3 }), async (args) => {
        try {
          await call(...args);
        } catch (error) {
          if (!isTurnpikeError(error)) throw error;
          expect(error.message).to.not.equal(ERRORS[error.code].cause);
          expect(error.remedy).to.have.length.greaterThan(10);
        }
      }),
      { numRuns: 60, seed: 20_261_129 },
    );

  const payer = agent.createAgent({
    wallet: agent.walletFromKey(`0x${"11".repeat(32)}`),
    policy: { perPayment: 1, perDay: 1 },
    facilitators: ["http://127.0.0.1:9"],
    fetch: () => Promise.reject(new TypeError("fetch failed")),
    sleep: async () => undefined,
  });
  const { provider } = createTestProvider();
  after(() => Promise.all([main.close(), payer.close(), provider.close()]));
  for (const [of, methods] of Object.entries({ "an agent": payer, "a provider": provider })) {
    for (const [name, method] of Object.entries(methods)) {
      if (typeof method !== "function" || name === "close") continue;
      it(`throw errors of this package: ${name} of ${of}`, () => refusesAll(method as () => unknown));
    }
  }

  for (const [entryPoint, exported] of Object.entries(ENTRY_POINTS)) {
    for (const [name, value] of Object.entries(exported)) {
      if (typeof value !== "function" || isClass(value)) continue;
      it(`throw errors of this package: ${name} of ${entryPoint}`, () => refusesAll(value as () => unknown));
    }
  }
});
