import { expect } from "chai";
import { type ClaimStore, memoryClaims, type Provider } from "turnpike/gate";
import { holdClaim } from "../../../../sdk/src/gate/purchases/held";
import {
  ONE_TIME,
  paidHeaders,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { idOf, NOW_MS, NOW_SEC } from "../support/claim-store";
import { ADAPTERS, PREFIX } from "../support/frameworks";

/** Renewals never arrive, as when a process is suspended; a later claim finds the lease lapsed. */
function lapsing(): ClaimStore & { passMs: number } {
  const store = memoryClaims({ warn: false });
  return {
    ...store,
    passMs: 0,
    claim(id, act, nowSec) {
      return store.claim(id, { ...act, nowMs: act.nowMs + this.passMs }, nowSec);
    },
    async apply(id, act) {
      return act.act === "renew" ? true : store.apply(id, act);
    },
  };
}

describe("a claim whose lease has lapsed", () => {
  it("is lost once another request took it over, and cannot be used any more", async () => {
    const store = lapsing();
    const asked = { store, paymentId: idOf("a"), keepUntilSec: NOW_SEC + 9_999, nowSec: NOW_SEC, nowMs: () => NOW_MS };
    const first = await holdClaim(asked);
    store.passMs = 60_001;
    const second = await holdClaim(asked);
    if (first.kind !== "held" || second.kind !== "held") throw new TypeError("both are held in their turn");
    const fault = await first.claim.settle("use").catch((error: { code: string }) => error.code);
    expect(fault).to.equal("Unavailable");
    await second.claim.settle("use");
  });

  it("is its holder's still where nobody took it over", async () => {
    const store = lapsing();
    const asked = { store, paymentId: idOf("a"), keepUntilSec: NOW_SEC + 9_999, nowSec: NOW_SEC, nowMs: () => NOW_MS };
    const first = await holdClaim(asked);
    store.passMs = 60_001;
    if (first.kind !== "held") throw new TypeError("held");
    await first.claim.settle("use");
    expect((await holdClaim(asked)).kind).to.equal("used");
  });

  for (const [name, start] of Object.entries(ADAPTERS)) {
    it(`C1 serves one answer of two handlers that ran, through ${name}`, async () => {
      const facilitator: SmallFacilitator = await startSmallFacilitator();
      const claims = lapsing();
      const provider: Provider = testProvider(facilitator, { claims });
      const waiting: (() => void)[] = [];
      const handle = async () => {
        await new Promise<void>((resolve) => waiting.push(resolve));
        return { body: "what was paid for" };
      };
      const server = await start(provider, [{ path: "/slow", gate: { pricing: ONE_TIME } as never, handle }]);
      const url = `${server.url}${PREFIX}/slow`;
      const headers = await paidHeaders(url);
      const first = send(url, { headers }).catch(() => ({ status: 0, text: "" }));
      await until(() => waiting.length === 1);
      claims.passMs = 60_001;
      const second = send(url, { headers });
      await until(() => waiting.length === 2);
      for (const release of waiting) release();
      expect((await second).text).to.equal("what was paid for");
      const { status, text } = await first;
      expect(status, text).to.be.oneOf([0, 503]);
      expect(text).to.not.include("what was paid for");
      await server.stop();
      await provider.close();
      await facilitator.stop();
    });
  }
});
