/** What a client that left finds when it comes back, while its payment still settles before its handler. */
import { request as httpRequest } from "node:http";
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import {
  ONE_TIME,
  RESERVING,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { ADAPTERS, type AdapterServer, PREFIX } from "../support/frameworks";
import { v2Headers } from "../support/standard";

for (const adapter of ["node:http", "Express 5"]) {
  describe(`a client that leaves before its payment has settled, through ${adapter}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: AdapterServer;
    let runs: number;

    beforeEach(async () => {
      facilitator = await startSmallFacilitator();
      facilitator.supported = RESERVING;
      provider = testProvider(facilitator, { replay: {} });
      runs = 0;
      const handle = () => ({ body: `run ${++runs}` });
      server = await (ADAPTERS[adapter] as (typeof ADAPTERS)[string])(provider, [
        { path: "/paid", gate: { pricing: ONE_TIME, settle: "before" } as never, handle },
      ]);
    });
    afterEach(async () => {
      await server.stop();
      await provider.close();
      await facilitator.stop();
    });

    it("HA22 finds it in use until it has settled, returns soon after, and is served by the same payment", async () => {
      const url = `${server.url}${PREFIX}/paid`;
      const headers = await v2Headers(url);
      let release: () => void = () => undefined;
      facilitator.held = new Promise<void>((resolve) => {
        release = resolve;
      });
      facilitator.holds = (path) => path === "/settle";
      const asked = () => facilitator.calls.filter(({ path }) => path === "/settle").length;
      const leaving = httpRequest(url, { headers, agent: false }).on("error", () => undefined);
      leaving.end();
      while (asked() === 0) await new Promise((resolve) => setImmediate(resolve));
      leaving.destroy();

      const early = await send(url, { headers });
      expect([early.status, early.json.error]).to.deep.equal([409, "ProofInFlight"]);
      expect(Number(early.headers["retry-after"]), "a settlement takes about a block").to.be.at.most(2);
      facilitator.held = undefined;
      release();
      let late = await send(url, { headers });
      while (late.status === 409) late = await send(url, { headers });
      expect([late.status, late.text]).to.deep.equal([200, "run 1"]);
      expect([runs, asked()], "the second asks for what has settled").to.deep.equal([1, 2]);
    });
  });
}
