import { expect } from "chai";
import type { AgentPolicy } from "turnpike/agent";
import { rejection } from "./support/rejection";
import { agentFor, TOKEN } from "./support/world";

const limits = { perPayment: 1n, perDay: 1n };

describe("the options of an agent", () => {
  for (const [given, says] of [
    [{ perPayes: 1n }, /policy\.perPayes is no known option: did you mean perPayee\?/],
    [{ maxamount: 1n }, /policy\.maxamount is no known option/],
    [{ prefer: { network: ["base"] } }, /policy\.prefer\.network .*networks/],
    [{ tokens: TOKEN }, /policy\.tokens must be a list/],
    [{ tokens: null }, /policy\.tokens must be a list/],
    [{ networks: "base" }, /policy\.networks must be a list/],
    [{ payees: {} }, /policy\.payees must be a list/],
    [{ methods: "upto" }, /policy\.methods must be a list/],
    [{ uptoFacilitators: null }, /policy\.uptoFacilitators must be a list/],
    [{ perPayee: null }, /policy\.perPayee is null/],
    [{ perPayment: null }, /policy\.perPayment is null/],
    [{ allowHttp: "false" }, /policy\.allowHttp must be true or false/],
    [{ requireReceipt: 0 }, /policy\.requireReceipt must be true or false/],
    [{ requireUntil: null }, /policy\.requireUntil must be true or false/],
    [{ askNewPayees: "" }, /policy\.askNewPayees must be true or false/],
    [{ ask: true }, /policy\.ask must be a function/],
  ] as const) {
    const [name = ""] = Object.keys(given);
    it(`D23 a policy with ${name} ${String(Object.values(given)[0])} is refused by its name`, () => {
      const policy = { ...limits, ...given } as unknown as AgentPolicy;
      expect(() => agentFor("http://127.0.0.1:1", { policy }))
        .to.throw(says)
        .with.property("code", "ConfigError");
    });
  }

  for (const given of [{ ledgr: {} }, { limits: { settleMS: 1 } }, { polices: [] }]) {
    const [name = ""] = Object.keys(given);
    it(`D23 an agent with ${JSON.stringify(given)} is refused by its name`, () => {
      expect(() => agentFor("http://127.0.0.1:1", given as object))
        .to.throw(`${name}`)
        .with.property("code", "ConfigError");
    });
  }

  it("D23 a misspelled option of a subscription or its change is refused, and nothing is requested", async () => {
    let requests = 0;
    const fetch = async () => {
      requests++;
      return new Response();
    };
    const { agent } = agentFor("http://127.0.0.1:1", { fetch });
    const id = `0x${"11".repeat(32)}` as const;
    const given = (options: object) => options as never;
    for (const [name, act] of [
      ["untill", () => agent.subscribe(given({ planId: id, untill: 1 }))],
      ["maxOverrage", () => agent.subscribe(given({ planId: id, maxOverrage: 1 }))],
      ["maxcharge", () => agent.resume(id, given({ maxcharge: 1 }))],
      ["maxcharge", () => agent.changePlan(id, given({ planId: id, maxcharge: 1 }))],
      ["at", () => agent.changePlan(id, given({ planId: id, at: "period_end" }))],
      ["atPeriodend", () => agent.cancel(id, given({ atPeriodend: true }))],
      ["period", () => agent.topUp(given({ period: 1 }))],
    ] as const) {
      const error = await rejection(act());
      expect([["ConfigError", "InvalidRequest"].includes(error.code), requests], name).to.deep.equal([true, 0]);
      expect(error.message).to.include(name);
    }
  });

  it("D23 a call's misspelled maxAmount or idempotencyKey is refused, and nothing is requested", async () => {
    let requests = 0;
    const fetch = async () => {
      requests++;
      return new Response("free");
    };
    const { agent } = agentFor("http://127.0.0.1:1", { fetch });
    for (const given of [{ maxamount: 1 }, { maxAmout: 1 }, { idempotencykey: "k" }]) {
      const [name = ""] = Object.keys(given);
      for (const call of [agent.pay, agent.fetch]) {
        const error = await rejection(call("https://shop.test/a", given as object));
        expect([error.code, error.message.includes(name), requests]).to.deep.equal(["ConfigError", true, 0]);
      }
    }
    expect((await agent.fetch("https://shop.test/a", { keepalive: true, priority: "low" })).status).to.equal(200);
  });
});
