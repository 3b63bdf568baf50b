/** A gate that pins another signer than its Facilitator's: payments would settle, and be refused here. */
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import type { TurnpikeError } from "turnpike/protocol";
import {
  addressOf,
  headerOf,
  NOW,
  ONE_TIME,
  proofOf,
  quoteOf,
  type SmallFacilitator,
  send,
  signedSettlement,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { ADAPTERS, type AdapterServer, PREFIX } from "../support/frameworks";
import { v1Headers, v2Headers } from "../support/standard";

const WRONG = addressOf("mistyped");
const RIGHT = addressOf("facilitator");

describe("a gate that pins another signer than its Facilitator's", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  let server: AdapterServer | undefined;
  const warnings: string[] = [];
  const note = ({ name, message }: Error) => void warnings.push(`${name}: ${message}`);

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    process.on("warning", note);
  });
  afterEach(async () => {
    process.off("warning", note);
    await server?.stop();
    server = undefined;
    await provider.close();
    await facilitator.stop();
    warnings.length = 0;
  });

  const pin = (...signers: readonly string[]) => {
    provider = testProvider(facilitator, { facilitator: { url: facilitator.url, signers } });
    return provider;
  };
  const failure = (ready: Promise<void>) =>
    ready.then(
      () => "ready",
      (error: TurnpikeError) => `${error.code}: ${error.message}`,
    );
  const both = new RegExp(`facilitator.signers .*pins ${WRONG}.* signs with ${RIGHT}`);

  for (const adapter of Object.keys(ADAPTERS)) {
    it(`J3 is warned of both addresses at start, and of each refusal at most once a minute, through ${adapter}`, async () => {
      const start = ADAPTERS[adapter] as (typeof ADAPTERS)[string];
      const route = { path: "/paid", gate: { pricing: ONE_TIME }, handle: () => ({ body: "served" }) };
      server = await start(pin(WRONG), [route]);
      const url = `${server.url}${PREFIX}/paid`;
      const present = async () => {
        const [entry] = (await quoteOf(url)).accepts;
        return send(url, { headers: headerOf(proofOf(entry as never)) });
      };
      for (let i = 0; i < 3; i++) expect((await present()).json.reason).to.equal("facilitator");
      await until(() => warnings.some((line) => both.test(line)));
      const refusals = () => warnings.filter((line) => line.includes("was refused"));
      await until(() => refusals().length > 0);
      expect(refusals()).to.have.length(1);
      expect(refusals()[0]).to.include(RIGHT).and.include(WRONG);
      expect(warnings.filter((line) => both.test(line))).to.have.length(1);
    });
  }

  for (const version of [1, 2] as const) {
    it(`J3 logs a grant of an unpinned signer for a payment of version ${version}`, async () => {
      const route = { path: "/paid", gate: { pricing: ONE_TIME }, handle: () => ({ body: "served" }) };
      server = await (ADAPTERS["node:http"] as (typeof ADAPTERS)[string])(pin(WRONG), [route]);
      const url = `${server.url}${PREFIX}/paid`;
      facilitator.settle = (asked) => signedSettlement(asked, `0x${"ab".repeat(32)}`, "facilitator");
      const [entry] = (await quoteOf(url)).accepts;
      const headers = version === 1 ? await v1Headers(entry as never) : await v2Headers(url);
      expect((await send(url, { headers })).status).to.not.equal(200);
      await until(() => warnings.some((line) => line.includes("was refused") && line.includes(RIGHT)));
    });
  }

  it("J3 is not ready: ConfigError names the setting and both addresses", async () => {
    expect(await failure(pin(WRONG).ready()))
      .to.match(both)
      .and.to.match(/^ConfigError/);
    expect(await failure(provider.gate({ pricing: ONE_TIME }).ready())).to.match(both);
  });

  it("J3 is ready with the current signer among others, and with one that retires later", async () => {
    expect(await failure(pin(WRONG, RIGHT).ready())).to.equal("ready");
    await provider.close();
    expect(await failure(pin(WRONG, `${RIGHT}@${NOW + 60}`).ready())).to.equal("ready");
    await provider.close();
    expect(await failure(pin(WRONG, `${RIGHT}@${NOW - 60}`).ready())).to.match(/^ConfigError: facilitator.signers/);
  });

  it("J3 is ready during an outage of the Facilitator, which is logged with its URL", async () => {
    facilitator.mode = "down";
    expect(await failure(pin(RIGHT).ready())).to.equal("ready");
    await until(() => warnings.some((line) => line.includes(facilitator.url)));
  });
});
