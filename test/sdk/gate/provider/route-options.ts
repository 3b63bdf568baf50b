/** A route's options: what is of another kind is refused at start, and what the provider's own functions throw is logged. */
import { inspect } from "node:util";
import { expect } from "chai";
import type { GateOptions, Provider } from "turnpike/gate";
import * as express from "turnpike/gate/express";
import * as fastify from "turnpike/gate/fastify";
import * as fetchGates from "turnpike/gate/fetch";
import * as hono from "turnpike/gate/hono";
import * as next from "turnpike/gate/next";
import * as node from "turnpike/gate/node";
import type { TurnpikeError } from "turnpike/protocol";
import { createTestProvider } from "turnpike/testing";
import { FRAMEWORKS, ONE_TIME, send } from "../../../support/gate";
import { until } from "../../../support/subscriptions";

const problem = (act: () => unknown): string => {
  try {
    act();
    return "accepted";
  } catch (error) {
    return `${(error as TurnpikeError).code ?? (error as Error).name}: ${(error as Error).message}`;
  }
};

const FACTORIES = { express, fastify, fetch: fetchGates, hono, next, node };

describe("a route's options", () => {
  const { provider } = createTestProvider();
  after(() => provider.close());
  const gate = (more: object) => problem(() => provider.gate({ pricing: ONE_TIME, ...more } as GateOptions));

  for (const [name, more] of [
    ["free", { free: true }],
    ["authorize", { authorize: "admin" }],
    ["metered", { metered: "yes" }],
    ["replay", { replay: 0 }],
    ["page", { page: "html" }],
    ["cors", { cors: "*" }],
    ["x402v2", { x402v2: 2 }],
    ["sellSingleAtPlanPrice", { sellSingleAtPlanPrice: 1 }],
    ["description", { description: 5 }],
    ["mimeType", { mimeType: ["text/html"] }],
    ["description", { description: "a\0b" }],
    ["mimeType", { mimeType: "text/html\0" }],
    ["discovery", { discovery: { body: { text: "\0" } } }],
    ["discovery", { discovery: { body: JSON.parse('{"__proto__": 1}') } }],
    ["discovery", { discovery: { queryParams: { constructor: 1 } } }],
    ["discovery", { discovery: { body: { at: 1n } } }],
    ["settle", { settle: "later" }],
    ["pricing[0]", { pricing: [null] }],
    ["pricing[0].plan", { pricing: [{ type: "subscription", plan: 7 }] }],
    ["pricing[0].prices[0]", { pricing: [{ type: "one-time", prices: ["$1"] }] }],
  ] as const) {
    it(`are refused at start where ${name} cannot be sent, as ${inspect(more)}`, () => {
      const refused = gate(more);
      expect(refused.startsWith(`ConfigError: ${name}`), refused).to.equal(true);
    });
  }

  it("say of one price without a list that pricing is a list", () => {
    expect(gate({ pricing: { type: "one-time", amount: 5 } })).to.equal(
      'ConfigError: pricing is an object: use a list of entries; for one price write price: "$0.50"',
    );
    expect(gate({ pricing: [] })).to.match(/^ConfigError: pricing is empty/);
    expect(gate({ pricing: undefined })).to.match(/^ConfigError: pricing is not set: use a list/);
  });

  it("may be one price alone, which is refused beside a list and as a number", () => {
    const alone = (more: object) => gate({ pricing: undefined, ...more });
    const wrong = [
      [{ price: "$0.50", pricing: ONE_TIME }, "price and pricing are both set"],
      [{ price: 0.5 }, "pricing[0].price"],
      [{ price: "$0" }, "pricing[0].price is 0"],
    ] as const;
    for (const [more, said] of wrong) expect(alone(more)).to.include(`ConfigError: ${said}`);
    expect(alone({ price: "$0.50" })).to.equal("accepted");
  });

  for (const [framework, { paymentGate }] of Object.entries(FACTORIES)) {
    it(`are refused by name where there are none, or a request in their place: ${framework}`, () => {
      const make = paymentGate as (options?: unknown) => unknown;
      for (const none of [undefined, null, "pricing", 5]) {
        expect(
          problem(() => make(none)),
          String(none),
        ).to.match(/^ConfigError: paymentGate's options /);
      }
      const uncalled = "ConfigError: paymentGate was given a request in place of its options";
      for (const request of [{ headers: {}, method: "GET", url: "/" }, new Request("http://127.0.0.1/"), { req: {} }]) {
        expect(problem(() => make(request)).startsWith(uncalled)).to.equal(true);
      }
      expect(problem(() => make({ provider: {}, pricing: ONE_TIME }))).to.match(/^ConfigError: provider is an object/);
    });
  }

  it("are refused by name in middleware of many routes", () => {
    for (const { paymentMiddleware } of [express, hono]) {
      const make = paymentMiddleware as (routes?: unknown, options?: unknown) => unknown;
      for (const routes of [undefined, null, "GET /", [], { "GET /x": null }, { "GET /x": 5 }]) {
        expect(
          problem(() => make(routes, { provider })),
          JSON.stringify(routes),
        ).to.match(/^ConfigError: /);
      }
      expect(problem(() => make({ "GET /x": { pricing: ONE_TIME } }, 5))).to.match(/^ConfigError: /);
    }
  });

  describe("whose functions throw", () => {
    const warnings: string[] = [];
    const note = ({ message }: Error) => void warnings.push(message);
    beforeEach(() => void process.on("warning", note));
    afterEach(() => {
      process.off("warning", note);
      warnings.length = 0;
    });
    const failing = () => {
      throw new RangeError("the price list is at postgres://reader:secret@db");
    };

    it("have each its error in the log, also where another route's option of that name has failed", async () => {
      const first = () => {
        throw new RangeError("the first");
      };
      const second = () => {
        throw new RangeError("the second");
      };
      const routes = [first, second].map((amount, place) => ({
        path: `/${place}`,
        gate: { pricing: [{ type: "one-time", amount }] } as GateOptions<never>,
      }));
      const server = await FRAMEWORKS.express(provider as Provider, routes);
      try {
        for (const [place, error] of ["the first", "the second"].entries()) {
          await send(`${server.url}/${place}`);
          await until(() => warnings.some((line) => line.includes(`pricing[0].amount failed`) && line.includes(error)));
        }
        await send(`${server.url}/0`);
        await new Promise(setImmediate);
        expect(warnings.filter((line) => line.includes("the first"))).to.have.length(1);
      } finally {
        await server.stop();
      }
    });

    it("fill no log where a request writes the error's text", async () => {
      const amount = ({ query }: { query: Record<string, string> }) => {
        throw new RangeError(`no price for ${query.of}\n    at ${query.of}`);
      };
      const server = await FRAMEWORKS.express(provider as Provider, [
        { path: "/x", gate: { pricing: [{ type: "one-time", amount }] } as unknown as GateOptions<never> },
      ]);
      try {
        for (const of of ["a", "b", "c"]) expect((await send(`${server.url}/x?of=${of}`)).status).to.equal(500);
        await new Promise(setImmediate);
        expect(warnings.filter((line) => line.includes("no price for"))).to.have.length(1);
      } finally {
        await server.stop();
      }
    });

    for (const [name, more] of Object.entries<object>({
      "pricing[0].amount": { pricing: [{ type: "one-time", amount: failing }] },
      "pricing[0].price": { pricing: [{ type: "one-time", price: failing }] },
      free: { free: failing },
    })) {
      it(`have the error in the provider's log with the option's name, and not in the answer: ${name}`, async () => {
        const server = await FRAMEWORKS.express(provider as Provider, [
          { path: "/x", gate: { pricing: ONE_TIME, ...more } as GateOptions<never> },
        ]);
        try {
          const answer = await send(`${server.url}/x`);
          expect(answer.status).to.equal(500);
          expect(answer.text).to.not.include("postgres");
          await until(() =>
            warnings.some((line) => line.includes(name) && line.includes("RangeError: the price list")),
          );
        } finally {
          await server.stop();
        }
      });
    }
  });
});
