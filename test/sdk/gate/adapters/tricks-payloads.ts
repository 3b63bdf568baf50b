/** Every way to write a payment's base64 and JSON: one payment is one grant, and a malformed one is refused with the field's name. */
import { expect } from "chai";
import type { AcceptEntryWire } from "turnpike/protocol";
import { outcomeOf } from "../../../hostile/support/tricks/outcome";
import { base64, FORGED, MALFORMED, SPELLINGS } from "../../../hostile/support/tricks/payloads";
import { ask } from "../../../hostile/support/tricks/wire";
import { headerOf, proofOf } from "../../../support/gate";
import { ADAPTERS, PREFIX } from "../support/frameworks";
import { v1Headers, v2Headers } from "../support/standard";
import { PAID_ROUTE, tricked } from "../support/tricked";

const TARGET = `${PREFIX}/paid`;

// A payload is read by the same lines whatever the framework: one of each kind, (req, res) and fetch.
const KINDS = ["Express 5", "Hono"];
for (const [name, start] of Object.entries(ADAPTERS).filter(([name]) => KINDS.includes(name))) {
  describe(`tricks with payloads, through ${name}`, function () {
    this.timeout(60_000);
    const at = tricked(start, { routes: PAID_ROUTE, publicUrl: "https://api.example" });

    const quoted = async () => (await ask(at.server.url, { target: TARGET }))?.json?.accepts?.[0] as AcceptEntryWire;
    const proof = async () => Buffer.from(headerOf(proofOf(await quoted()))["X-PAYMENT"], "base64").toString("utf8");
    const show = (value: string, name = "X-PAYMENT") =>
      ask(at.server.url, { target: TARGET, lines: [`${name}: ${value}`] });

    it("C1 C8 one proof in every spelling is one payment", async () => {
      const json = await proof();
      for (const [index, [what, header]] of SPELLINGS.entries()) {
        expect(outcomeOf(await show(header(json))), what).to.equal(index === 0 ? "served" : "used");
      }
      expect(at.served).to.equal(1);
    });

    it("C8 each spelling is a proof by itself", async () => {
      for (const [what, header] of SPELLINGS) {
        expect(outcomeOf(await show(header(await proof()))), what).to.equal("served");
      }
    });

    it("C8 what is no proof is refused with its field, and costs nothing", async () => {
      const json = await proof();
      for (const [what, header, field] of MALFORMED) {
        const answer = await show(header(json));
        expect(outcomeOf(answer), what).to.equal("malformed");
        expect(answer?.json.accepts, what).to.have.length(1);
        if (field) expect(answer?.json.message, what).to.include(`field ${field} is`);
      }
      expect(at.served).to.equal(0);
      expect(outcomeOf(await show(base64(json)))).to.equal("served");
    });

    it("C3 C17 what its Facilitator did not sign is refused, and costs nothing", async () => {
      const json = await proof();
      for (const [what, header] of FORGED) {
        expect(header(json), `${what} changes something`).to.not.equal(base64(json));
        expect(outcomeOf(await show(header(json))), what).to.equal("refused");
      }
      expect(at.served).to.equal(0);
      expect(outcomeOf(await show(base64(json)))).to.equal("served");
    });

    const STANDARD: readonly (readonly [what: string, change: (json: string) => string, field: string])[] = [
      ["a value with a leading zero", (json) => json.replace('"value":"', '"value":"0'), "payload.authorization.value"],
      [
        "a value with an exponent",
        (json) => json.replace(/"value":"\d+"/, '"value":"5e5"'),
        "payload.authorization.value",
      ],
      ["a value as a number", (json) => json.replace(/"value":"(\d+)"/, '"value":$1'), "payload.authorization.value"],
      [
        "a time with an exponent",
        (json) => json.replace(/"validBefore":"\d+"/, '"validBefore":"1e9"'),
        "payload.authorization.validBefore",
      ],
      [
        "a negative time",
        (json) => json.replace('"validAfter":"', '"validAfter":"-'),
        "payload.authorization.validAfter",
      ],
      ["a nonce of 31 bytes", (json) => json.replace(/("nonce":"0x)../, "$1"), "payload.authorization.nonce"],
      ["a payer with 0X", (json) => json.replace('"from":"0x', '"from":"0X'), "payload.authorization.from"],
      [
        "a signature of half a byte",
        (json) => json.replace('"signature":"0x', '"signature":"0x0'),
        "payload.signature",
      ],
      [
        "a signature of 3 KB",
        (json) => json.replace('"signature":"0x', `"signature":"0x${"00".repeat(2_000)}`),
        "payload.signature",
      ],
      ["no authorization", (json) => json.replace('"authorization":', '"other":'), "payload.authorization"],
      ["no payload", (json) => json.replace('"payload":', '"other":'), "payload"],
    ];

    for (const [version, header, headersOf] of [
      ["1", "X-PAYMENT", async () => v1Headers(await quoted())],
      ["2", "PAYMENT-SIGNATURE", () => v2Headers(`${at.server.url}${TARGET}`)],
    ] as const) {
      const payload = async () => {
        const made = (await headersOf()) as Record<string, string>;
        return Buffer.from(made[header] ?? "", "base64").toString("utf8");
      };

      it(`C8 a payload of version ${version} that is none is refused with its field, before any settlement`, async () => {
        const json = await payload();
        at.facilitator.calls.length = 0;
        for (const [what, change, field] of STANDARD) {
          expect(change(json), `${what} changes something`).to.not.equal(json);
          const answer = await show(base64(change(json)), header);
          expect(outcomeOf(answer), what).to.equal("malformed");
          expect(answer?.json.message, what).to.include(`field ${field} is`);
        }
        expect(at.facilitator.calls).to.have.length(0);
        expect(at.served).to.equal(0);
        expect(outcomeOf(await show(base64(json), header))).to.equal("served");
      });

      it(`C1 C8 one authorization of version ${version} in every spelling is one payment`, async () => {
        const json = await payload();
        at.facilitator.calls.length = 0;
        const lower = (key: string) =>
          json.replace(new RegExp(`"${key}":"0x[^"]+`), (found) => found.toLowerCase().replace(key.toLowerCase(), key));
        const spelt = [json, lower("from"), lower("to"), ` ${json} `, json.replace("{", '{"more":1,')];
        spelt.push(json.replace(/("nonce":"0x)([0-9a-f]+)/, (_, name, digits: string) => name + digits.toUpperCase()));
        spelt.push(json.replace(/"validAfter":"0"/, '"validAfter":"1"'));
        for (const [index, text] of spelt.entries()) {
          const safe = index === 0 ? ["served"] : ["used"];
          expect(outcomeOf(await show(base64(text), header)), text.slice(0, 60)).to.be.oneOf(safe);
        }
        expect(at.served).to.equal(1);
        expect(at.facilitator.calls.map(({ path }) => path)).to.deep.equal(["/settle"]);
      });
    }
  });
}
