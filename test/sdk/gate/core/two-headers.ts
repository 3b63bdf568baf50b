/** Payloads where wallets put them: in the other version's header, in both at once, and where no gate looks. */
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { type AcceptEntryWire, encodeJsonHeader } from "turnpike/protocol";
import {
  FRAMEWORKS,
  headerOf,
  ONE_TIME,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  type TestServer,
  testProvider,
} from "../../../support/gate";
import { exactPayload, identified, requiredIn } from "../support/standard";

const X_PAYMENT = "X-PAYMENT";
const SIGNATURE = "PAYMENT-SIGNATURE";

type Payload = Awaited<ReturnType<typeof exactPayload>>;

describe("payment headers", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: TestServer;
  let url: string;

  before(async () => {
    facilitator = await startSmallFacilitator();
    provider = testProvider(facilitator, { replay: {} });
    server = await FRAMEWORKS.express(provider, [{ path: "/report", gate: { pricing: ONE_TIME } }]);
    url = `${server.url}/report`;
  });
  beforeEach(() => {
    server.served.clear();
    facilitator.calls.length = 0;
  });
  after(async () => {
    await server.stop();
    await provider.close();
    await facilitator.stop();
  });

  /** One signed authorization in the forms of both versions. */
  async function forms(extensions: object = {}, change: (payload: Payload) => Payload = (same) => same) {
    const quoted = await send(url);
    const entry = quoted.json.accepts[0] as AcceptEntryWire;
    const [accepted] = requiredIn(quoted).accepts;
    const payload = await exactPayload({ to: entry.payTo, value: BigInt(entry.amount ?? "0") });
    const first = { x402Version: 1, scheme: "exact", network: entry.network, payload: change(payload) };
    return { v1: first, v2: { x402Version: 2, payload, accepted, extensions } };
  }
  const ask = (headers: Record<string, string | string[]>) => send(url, { headers });

  it("reads each version in the other version's header", async () => {
    const [one, two] = [await forms(), await forms()];
    const first = await ask({ [SIGNATURE]: encodeJsonHeader(one.v1) });
    expect(first.status, first.text).to.equal(200);
    const second = await ask({ [X_PAYMENT]: encodeJsonHeader(two.v2) });
    expect(second.status, second.text).to.equal(200);
    expect(facilitator.calls.map(({ body }) => (body as { x402Version?: number }).x402Version)).to.deep.equal([1, 2]);
  });

  for (const version of ["v1", "v2"] as const) {
    it(`serves one ${version} payload that is sent in both headers once`, async () => {
      const header = encodeJsonHeader((await forms())[version]);
      const both = { [X_PAYMENT]: header, [SIGNATURE]: header };
      const answer = await ask(both);
      expect(answer.status, answer.text).to.equal(200);
      const again = [await ask(both), await ask({ [X_PAYMENT]: header }), await ask({ [SIGNATURE]: header })];
      expect(again.map(({ json }) => json.reason)).to.deep.equal(Array(3).fill("already_used"));
      expect(server.served.get("/report")).to.equal(1);
    });
  }

  for (const [what, change] of Object.entries({
    "as it is": (payload: Payload) => payload,
    "in another case": ({ signature, authorization }: Payload) => ({
      signature: `0x${signature.slice(2).toUpperCase()}`,
      authorization: { ...authorization, from: String(authorization.from).toLowerCase() },
    }),
    "with a v of 0 or 1": ({ signature, authorization }: Payload) => ({
      signature: `${signature.slice(0, 130)}${signature.endsWith("1b") ? "00" : "01"}`,
      authorization,
    }),
  })) {
    for (const swapped of [false, true]) {
      it(`judges the version 2 form of an authorization that both headers hold, ${what}${swapped ? ", swapped" : ""}`, async () => {
        const id = `same_authorization_${what.length}_${swapped}`;
        const { v1, v2 } = await forms(identified(id), change);
        const [inFirst, inSecond] = swapped ? [v2, v1] : [v1, v2];
        const both = { [X_PAYMENT]: encodeJsonHeader(inFirst), [SIGNATURE]: encodeJsonHeader(inSecond) };
        const answer = await ask(both);
        expect(answer.status, answer.text).to.equal(200);
        expect(facilitator.calls.map(({ body }) => (body as { x402Version?: number }).x402Version)).to.deep.equal([2]);
        const again = await ask({ [SIGNATURE]: encodeJsonHeader(v2) });
        expect([again.status, again.headers["idempotency-replayed"]]).to.deep.equal([200, "true"]);
        expect((await ask(both)).headers["idempotency-replayed"]).to.equal("true");
        expect(server.served.get("/report")).to.equal(1);
      });
    }
  }

  it("refuses two payments with 400, and neither is used by it", async () => {
    const [one, other] = [await forms(), await forms()];
    const entry = (await quoteOf(url)).accepts[0] as AcceptEntryWire;
    const proof = headerOf(proofOf(entry))["X-PAYMENT"] as string;
    const altered = await forms({}, ({ signature, authorization }) => ({
      signature,
      authorization: { ...authorization, value: "1" },
    }));
    const resigned = await forms({}, (payload) => ({ ...payload, signature: `0x${"11".repeat(64)}1b` }));
    const pairs: readonly (readonly [what: string, first: string, second: string])[] = [
      ["two authorizations", encodeJsonHeader(one.v1), encodeJsonHeader(other.v2)],
      ["two of one version", encodeJsonHeader(one.v2), encodeJsonHeader(other.v2)],
      ["two readings of one version", encodeJsonHeader(one.v2), encodeJsonHeader({ ...one.v2, extensions: { a: 1 } })],
      ["another amount", encodeJsonHeader(altered.v1), encodeJsonHeader(altered.v2)],
      ["another signature", encodeJsonHeader(resigned.v1), encodeJsonHeader(resigned.v2)],
      ["a proof beside a payload", proof, encodeJsonHeader(one.v2)],
      ["a version nobody reads beside one", encodeJsonHeader(one.v1), encodeJsonHeader({ ...one.v2, x402Version: 3 })],
      ["JSON as it is beside one", encodeJsonHeader(one.v1), JSON.stringify(other.v2)],
      ["no authorization in either", encodeJsonHeader({ x402Version: 1 }), encodeJsonHeader({ x402Version: 2 })],
    ];
    for (const [what, first, second] of pairs) {
      const answer = await ask({ [X_PAYMENT]: first, [SIGNATURE]: second });
      expect([answer.status, answer.json.error], what).to.deep.equal([400, "AmbiguousCredentials"]);
      expect(answer.json.message, what).to.include("X-PAYMENT").and.include("PAYMENT-SIGNATURE");
    }
    expect(facilitator.calls).to.have.length(0);
    expect((await ask({ [SIGNATURE]: encodeJsonHeader(one.v2) })).status).to.equal(200);
  });

  it("serves the one payment that is there beside a header that holds none", async () => {
    for (const other of ["", "garbage"]) {
      for (const [version, name, beside] of [
        ["v1", X_PAYMENT, SIGNATURE],
        ["v2", SIGNATURE, X_PAYMENT],
      ] as const) {
        const header = encodeJsonHeader((await forms())[version]);
        const answer = await ask({ [name]: header, [beside]: other });
        expect(answer.status, `${version} beside "${other}": ${answer.text}`).to.equal(200);
        expect((await ask({ [name]: header })).json.reason).to.equal("already_used");
      }
    }
    const neither = await ask({ [X_PAYMENT]: "", [SIGNATURE]: "garbage" });
    expect([neither.status, neither.json.reason]).to.deep.equal([402, "malformed"]);
    expect(neither.json.message).to.match(/^X-PAYMENT .*empty/);
  });

  it("takes one payload in two orders of its fields for one", async () => {
    const { v2 } = await forms(identified("same_payload_in_two_orders"));
    const turned = JSON.parse(JSON.stringify(v2), (_, value) =>
      value && typeof value === "object" && !Array.isArray(value)
        ? Object.fromEntries(Object.entries(value).reverse())
        : value,
    );
    const both = { [X_PAYMENT]: encodeJsonHeader(v2), [SIGNATURE]: encodeJsonHeader(turned) };
    expect(both[X_PAYMENT]).to.not.equal(both[SIGNATURE]);
    expect((await ask(both)).status).to.equal(200);
    expect((await ask(both)).headers["idempotency-replayed"]).to.equal("true");
  });

  it("names what is wrong with a header that holds no payment, and the right one", async () => {
    const { v1, v2 } = await forms();
    const entry = (await quoteOf(url)).accepts[0] as AcceptEntryWire;
    const proof = headerOf(proofOf(entry))["X-PAYMENT"] as string;
    const with2 = (change: object) => encodeJsonHeader({ ...v2, ...change });
    const named: readonly (readonly [Record<string, string>, RegExp])[] = [
      [{ [SIGNATURE]: with2({ x402Version: 3 }) }, /^PAYMENT-SIGNATURE holds no payment: .*x402Version 3.*1 .*2/],
      [{ [X_PAYMENT]: with2({ x402Version: "2" }) }, /^X-PAYMENT .*x402Version is text/],
      [{ [SIGNATURE]: with2({ x402Version: undefined }) }, /^PAYMENT-SIGNATURE .*x402Version is missing/],
      [{ [SIGNATURE]: "" }, /^PAYMENT-SIGNATURE .*empty/],
      [{ [X_PAYMENT]: "" }, /^X-PAYMENT .*empty/],
      [{ [X_PAYMENT]: JSON.stringify(v1) }, /^X-PAYMENT .*JSON.*base64/],
      [{ [SIGNATURE]: JSON.stringify(v2) }, /^PAYMENT-SIGNATURE .*JSON.*base64/],
      [{ [SIGNATURE]: "%%%" }, /^PAYMENT-SIGNATURE .*not base64/],
      [{ [SIGNATURE]: proof }, /^PAYMENT-SIGNATURE .*proof.*X-PAYMENT/],
      [{ [SIGNATURE]: with2({ payload: {} }) }, /^PAYMENT-SIGNATURE .*field payload/],
      [{ Authorization: `Bearer ${with2({})}` }, /^PAYMENT-SIGNATURE .*Authorization/],
      [{ Authorization: with2({}) }, /^PAYMENT-SIGNATURE .*Authorization/],
      [{ Authorization: `x402 ${encodeJsonHeader(v1)}` }, /^X-PAYMENT .*Authorization/],
      [{ "X-PAYMENT-SIGNATURE": with2({}) }, /^PAYMENT-SIGNATURE .*X-PAYMENT-SIGNATURE/],
    ];
    for (const [headers, message] of named) {
      const answer = await ask(headers);
      const at = JSON.stringify(headers).slice(0, 80);
      expect([answer.status, answer.json.error, answer.json.reason], at).to.deep.equal([
        402,
        "InvalidPaymentProof",
        "malformed",
      ]);
      expect(answer.json.message, at).to.match(message);
      expect(answer.json.accepts, at).to.have.length(1);
      expect(answer.headers, at).to.have.property("payment-required");
    }
    for (const value of ["Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "Basic dTpw", `Bearer ${proof}`]) {
      expect((await ask({ Authorization: value })).json.error, value).to.equal("PaymentRequired");
    }
    const served = await ask({ Authorization: `Bearer ${with2({})}`, [SIGNATURE]: encodeJsonHeader(v2) });
    expect(served.status, "a payment in its place beside it").to.equal(200);
  });
});
