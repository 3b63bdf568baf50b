/** Wallets write the v of a signature as 27 and 28, or as 0 and 1: one signature, one payment, one answer. */
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { type AcceptEntryWire, encodeJsonHeader } from "turnpike/protocol";
import {
  FRAMEWORKS,
  ONE_TIME,
  OVER_PERMIT2,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
  testProvider,
} from "../../../support/gate";
import { bare, highS } from "../../../support/signature-forms";
import { permit2Headers } from "../support/permit2";
import { requiredIn, v1Headers, v2Headers } from "../support/standard";

type Headers = Record<string, string>;

/** The same header with another form of its payload's signature. */
function signedAs(headers: Headers, form: (signature: string) => string): Headers {
  const [[name, value] = ["", ""]] = Object.entries(headers);
  const body = JSON.parse(Buffer.from(value, "base64").toString());
  const payload = { ...body.payload, signature: form(body.payload.signature) };
  return { [name]: encodeJsonHeader({ ...body, payload }) };
}

describe("signatures with a v of 0 or 1, at the gate", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: TestServer;

  before(async () => {
    facilitator = await startSmallFacilitator();
    facilitator.supported = OVER_PERMIT2;
    provider = testProvider(facilitator, { replay: {} });
    server = await FRAMEWORKS.express(provider, [
      { path: "/before", gate: { pricing: ONE_TIME, settle: "before" } },
      { path: "/after", gate: { pricing: ONE_TIME, settle: "after" } },
      {
        path: "/upto",
        gate: { pricing: [{ type: "upto", max: 500_000 }] as never },
        handle: (payment) => async () => {
          if (payment.kind === "one-time") await payment.charge(200_000n);
          return {};
        },
      },
    ]);
  });
  beforeEach(() => {
    facilitator.calls.length = 0;
    server.served.clear();
  });
  after(async () => {
    await server.stop();
    await provider.close();
    await facilitator.stop();
  });

  const quoted = async (path: string) => {
    const answer = await send(`${server.url}${path}`);
    return { entry: answer.json.accepts?.[0] as AcceptEntryWire, accepts: requiredIn(answer).accepts };
  };
  const PAYMENTS: Readonly<Record<string, readonly [path: string, made: (path: string) => Promise<Headers>]>> = {
    "version 1, settled before": ["/before", async (path) => v1Headers((await quoted(path)).entry)],
    "version 2, settled after": ["/after", (path) => v2Headers(`${server.url}${path}`)],
    "upto, over Permit2": ["/upto", async (path) => permit2Headers((await quoted(path)).accepts[0] as never)],
  };
  const signaturesSent = () =>
    facilitator.calls.map(({ body }) => {
      const sent = body as { paymentPayload?: { payload?: { signature?: string } } };
      return sent.paymentPayload?.payload?.signature?.slice(130);
    });

  for (const [what, [path, made]] of Object.entries(PAYMENTS)) {
    it(`serves ${what}, sends 27 or 28 on, and knows both forms as one payment`, async () => {
      const whole = await made(path);
      const zero = signedAs(whole, bare);
      const key = { "Idempotency-Key": `a_key_of_this_test_${path.slice(1)}` };
      const answer = await send(`${server.url}${path}`, { headers: { ...zero, ...key } });
      expect(answer.status, answer.text).to.equal(200);
      expect(signaturesSent()).to.not.be.empty;
      for (const v of signaturesSent()) expect(v).to.be.oneOf(["1b", "1c"]);
      for (const again of [whole, zero]) {
        const kept = await send(`${server.url}${path}`, { headers: { ...again, ...key } });
        expect([kept.status, kept.headers["idempotency-replayed"]]).to.deep.equal([200, "true"]);
        const used = await send(`${server.url}${path}`, { headers: again });
        expect(used.json).to.include({ error: "PaymentAlreadyUsed" });
      }
      expect(server.served.get(path)).to.equal(1);
    });

    it(`leaves a high s, a short and another account's signature of ${what} as they are`, async () => {
      for (const form of [
        (signature: string) => bare(highS(signature)),
        (signature: string) => signature.slice(0, 130),
        (signature: string) => `0x${"12".repeat(64)}${signature.endsWith("1b") ? "00" : "01"}`,
      ]) {
        let sent = "";
        const headers = signedAs(await made(path), (signature) => {
          sent = form(signature);
          return sent;
        });
        facilitator.calls.length = 0;
        await send(`${server.url}${path}`, { headers });
        const [first] = facilitator.calls.map(({ body }) => JSON.stringify(body));
        expect(first, "what the payer sent, for its Facilitator to judge").to.include(`"${sent}"`);
      }
    });
  }
});
