import { expect } from "chai";
import { addressOfKey, encodeJsonHeader, keccakText } from "turnpike/protocol";
import { CASES, CONTROL, trialsOf, tryCase } from "./support/battery";
import * as turnpike from "./support/clients/turnpike";
import type { HostileClient } from "./support/play";

/** It tries once in a call, and reads no text. */
const HARMLESS_TO_THE_GULLIBLE = ["D5-endless-402", "D11-text-that-asks"];

/** Signs whatever it is asked to, again and again: what the battery must see through. */
const gullible: HostileClient = {
  dialects: ["x402-v1"],
  async pay(url, { privateKey, signal = null }) {
    const asked = await fetch(url, { signal });
    if (asked.status !== 402) return asked;
    const { accepts } = (await asked.json()) as { accepts: Record<string, string>[] };
    const [entry = {}] = accepts;
    const { maxAmountRequired: value = "", payTo: to = "", network } = entry;
    const nonce = keccakText(`nonce ${Math.random()}`);
    const authorization = {
      from: addressOfKey(privateKey),
      to,
      value,
      validAfter: "0",
      validBefore: "9999999999",
      nonce,
    };
    const signature = `0x${"11".repeat(64)}1b`;
    const payload = { x402Version: 1, scheme: "exact", network, payload: { signature, authorization } };
    return fetch(url, { signal, headers: { "X-PAYMENT": encodeJsonHeader(payload) } });
  },
};

describe("the hostile battery itself", () => {
  it("sees a client that signs whatever it is asked to", async () => {
    expect((await tryCase(CONTROL, gullible, "x402-v1")).kind).to.equal("safe");
    const missed: string[] = [];
    for (const hostile of CASES) {
      if (hostile.needs || !trialsOf(hostile, gullible).includes("x402-v1")) continue;
      // What hangs or floods takes seconds of a client without limits; what is logged is its own matter.
      if (/D5-(dribbling|flooding)|D15/.test(hostile.id)) continue;
      const { kind } = await tryCase(hostile, gullible, "x402-v1");
      if (kind === "safe") missed.push(hostile.id);
    }
    expect(missed).to.deep.equal(HARMLESS_TO_THE_GULLIBLE);
  }).timeout(120_000);
});

describe("hostile servers and Facilitators, against this project's agent", () => {
  for (const hostile of [CONTROL, ...CASES]) {
    for (const dialect of trialsOf(hostile, turnpike)) {
      it(`${hostile.id} (${dialect}): ${hostile.safeResult}`, async () => {
        const { kind, saw } = await tryCase(hostile, turnpike, dialect);
        expect(kind, saw).to.equal("safe");
      }).timeout(240_000);
    }
  }
});
