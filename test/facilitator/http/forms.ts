import { expect } from "chai";
import { createApp } from "../../../facilitator/src/http/app";
import { unusedServices } from "../../support/unused-services";
import { JSON_TYPE } from "../support/http-service";
import { expectProblem } from "../support/problem";

const ADDRESS = `0x${"11".repeat(20)}`;
const HASH = `0x${"22".repeat(32)}`;
const SIGNATURE = `0x${"33".repeat(65)}`;
const PAYLOAD = "paymentPayload.payload";
const PERMIT2 = `${PAYLOAD}.permit2Authorization`;

const authorization = { from: ADDRESS, to: ADDRESS, value: "1", validAfter: "0", validBefore: "9", nonce: HASH };
const witness = { to: ADDRESS, validAfter: "0" };
const permit2Authorization = {
  from: ADDRESS,
  permitted: { token: ADDRESS, amount: "1" },
  spender: ADDRESS,
  nonce: "7",
  deadline: "9",
};

const requirements = { network: "eip155:8453", amount: "1", asset: ADDRESS, payTo: ADDRESS, maxTimeoutSeconds: 60 };
const exact = { scheme: "exact", ...requirements };
const upto = { scheme: "upto", ...requirements };
const { amount, ...ofVersion1 } = { ...exact, resource: "https://api.example/quote", maxAmountRequired: "1" };

const version2 = (accepted: object, payload: object) => ({
  paymentPayload: { x402Version: 2, accepted, payload: { signature: SIGNATURE, ...payload } },
  paymentRequirements: accepted,
});

/** The body of `/verify` and `/settle`, in each form that it may have. */
const FORMS = {
  version1: {
    paymentPayload: {
      x402Version: 1,
      scheme: "exact",
      network: "base",
      payload: { signature: SIGNATURE, authorization },
    },
    paymentRequirements: ofVersion1,
  },
  eip3009: version2(exact, { authorization }),
  permit2: version2(exact, { permit2Authorization: { ...permit2Authorization, witness } }),
  upto: version2(upto, {
    permit2Authorization: { ...permit2Authorization, witness: { ...witness, facilitator: ADDRESS } },
  }),
};

/** Replaces the fields at these paths; undefined removes one. */
function withFields(body: object, fields: Readonly<Record<string, unknown>>): object {
  const changed = JSON.parse(JSON.stringify(body));
  for (const [path, value] of Object.entries(fields)) {
    const keys = path.split(".");
    const last = keys.pop() as string;
    const parent = keys.reduce((object, key) => object[key], changed);
    parent[last] = value;
  }
  return changed;
}

describe("Facilitator: the field that a refusal names", () => {
  const app = createApp(unusedServices());
  const post = (path: string, body: object) =>
    app.request(path, { method: "POST", headers: JSON_TYPE, body: JSON.stringify(body) });

  const wrong: [keyof typeof FORMS, Readonly<Record<string, unknown>>, string][] = [
    ["version1", { "paymentRequirements.maxAmountRequired": 1 }, "paymentRequirements.maxAmountRequired"],
    ["version1", { "paymentPayload.network": 1, "paymentRequirements.asset": 1 }, "paymentPayload.network"],
    ["version1", { [PERMIT2]: {} }, PERMIT2],
    ["version1", { "paymentPayload.x402Version": undefined }, "paymentPayload.x402Version"],
    ["eip3009", { "paymentRequirements.asset": "0x1" }, "paymentRequirements.asset"],
    ["eip3009", { "paymentPayload.accepted": undefined }, "paymentPayload.accepted"],
    ["eip3009", { "paymentPayload.x402Version": "2" }, "paymentPayload.x402Version"],
    ["eip3009", { [`${PAYLOAD}.authorization`]: {} }, `${PAYLOAD}.authorization.from`],
    ["eip3009", { [PERMIT2]: {} }, PERMIT2],
    ["eip3009", { grant: { id: HASH } }, "grant.resource"],
    ["permit2", { [`${PAYLOAD}.signature`]: 1 }, `${PAYLOAD}.signature`],
    ["permit2", { [PERMIT2]: {} }, `${PERMIT2}.from`],
    ["permit2", { [`${PERMIT2}.nonce`]: "-1", "paymentRequirements.payTo": 1 }, `${PERMIT2}.nonce`],
    ["permit2", { "paymentRequirements.payTo": 1 }, "paymentRequirements.payTo"],
    ["upto", { "paymentRequirements.amount": "x" }, "paymentRequirements.amount"],
    ["upto", { [`${PERMIT2}.witness.facilitator`]: undefined }, `${PERMIT2}.witness.facilitator`],
    ["upto", { [PERMIT2]: undefined, [`${PAYLOAD}.authorization`]: authorization }, `${PAYLOAD}.authorization`],
  ];
  for (const [form, fields, field] of wrong) {
    it(`names ${field} of a ${form} payment with ${Object.keys(fields).join(" and ")} wrong`, async () => {
      for (const path of ["/verify", "/settle"]) {
        const { message, details } = await expectProblem(
          await post(path, withFields(FORMS[form], fields)),
          400,
          "InvalidRequest",
        );
        expect(details, String(message)).to.deep.equal({ field, in: "body" });
      }
    });
  }

  it("is days where a range has too many", async () => {
    const reader = createApp(unusedServices({ admit: async () => ({ keyId: "k" }) }));
    const headers = { authorization: "Bearer k" };
    const answer = await reader.request("/analytics/volume?days=1099", { headers });
    const { details } = await expectProblem(answer, 400, "InvalidRequest");
    expect(details).to.deep.equal({ field: "days", in: "query" });
  });

  it("names the field of a clock's move that has a step", async () => {
    const clock = createApp(unusedServices({ sandbox: {} as never, admit: async () => ({ keyId: "k" }) }));
    for (const [body, field] of [
      [{ seconds: 0 }, "seconds"],
      [{ to: "next-year" }, "to"],
    ] as const) {
      const answer = await clock.request("/sandbox/clock", {
        method: "POST",
        headers: { ...JSON_TYPE, authorization: "Bearer k" },
        body: JSON.stringify(body),
      });
      const { details } = await expectProblem(answer, 400, "InvalidRequest");
      expect(details).to.deep.equal({ field, in: "body" });
    }
  });
});
