/** Quotes that do not fit PAYMENT-REQUIRED as they are: clients of version 2 read nothing else, so they must be able to pay. */
import { request as httpRequest } from "node:http";
import { expect } from "chai";
import type { GateOptions, Provider, ProviderOptions } from "turnpike/gate";
import {
  FRAMEWORKS,
  keyOf,
  ONE_TIME,
  OVER_PERMIT2,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import { until } from "../../../support/subscriptions";
import { permit2Headers } from "../support/permit2";
import { v2Headers } from "../support/standard";

const LETTERS = {
  emoji: "🧾",
  "a family of emoji": "👩‍👩‍👧‍👦",
  Chinese: "價",
  quotes: '"',
  "control characters": "\u0001",
  ASCII: "d",
  "lone surrogates": "\ud800",
};

describe("long quotes", () => {
  let facilitator: SmallFacilitator;
  const open: { stop?(): Promise<void>; close?(): Promise<void> }[] = [];
  const warnings: string[] = [];
  const note = ({ message }: Error) => void warnings.push(message);

  before(async () => {
    facilitator = await startSmallFacilitator();
    facilitator.supported = OVER_PERMIT2;
  });
  after(() => facilitator.stop());
  beforeEach(() => process.on("warning", note));
  afterEach(async () => {
    process.off("warning", note);
    warnings.length = 0;
    for (const each of open.splice(0)) await (each.stop?.() ?? each.close?.());
  });

  async function serve(
    gate: GateOptions<never>,
    more: ProviderOptions = {},
  ): Promise<{ url: string; provider: Provider }> {
    const provider = testProvider(facilitator, more);
    const server = await FRAMEWORKS.express(provider, [{ path: "/x", gate }]);
    open.push(server, provider);
    return { url: `${server.url}/x`, provider };
  }
  const cuts = () => warnings.filter((line) => line.includes("PAYMENT-REQUIRED"));
  const quoteIn = (header: unknown) => JSON.parse(Buffer.from(String(header), "base64").toString("utf8"));

  for (const [what, letter] of Object.entries(LETTERS)) {
    it(`a long description of ${what} is shortened between characters, logged once, and can be paid by version 2`, async () => {
      const description = letter.repeat(3_000 / letter.length);
      const { url } = await serve({ pricing: ONE_TIME, description });
      for (let i = 0; i < 3; i++) {
        const { headers, json } = await send(url);
        const quote = quoteIn(headers["payment-required"]);
        expect(String(headers["payment-required"]).length).to.be.within(2_900, 3_072);
        const shown: string = quote.resource.description;
        expect(shown.endsWith("…"), shown.slice(-10)).to.equal(true);
        expect(shown.slice(0, -1)).to.equal(letter.repeat((shown.length - 1) / letter.length));
        expect(json.accepts[0].description, "the body is not cut").to.equal(JSON.parse(JSON.stringify(description)));
        expect(Object.keys(quote.extensions), "the description goes first").to.include("payment-identifier");
      }
      expect((await send(url, { headers: await v2Headers(url) })).status).to.equal(200);
      await until(() => cuts().length > 0);
      expect(cuts()).to.have.length(1);
      expect(cuts()[0]).to.include("the description after");
    });
  }

  it("ready() logs a description that does not fit, and nothing of one that does", async () => {
    const pricing = ONE_TIME;
    const provider = testProvider(facilitator);
    open.push(provider);
    await provider.gate({ pricing, description: "short" }).ready();
    await provider.gate({ pricing, description: "long ".repeat(800) }).ready();
    await until(() => cuts().length > 0);
    expect(cuts()).to.have.length(1);
    expect(cuts()[0]).to.include("long long");
  });

  for (const length of [1_000, 1_100, 1_500, 1_700, 2_048]) {
    for (const where of ["query", "path"] as const) {
      it(`a URL of ${length} bytes, most of it ${where}, is paid by version 2, over EIP-3009 and as upto`, async () => {
        const pricing = [...ONE_TIME, { type: "upto", max: 500_000n } as const];
        const { url: base, provider } = await serve({ pricing, description: "d".repeat(500) });
        await provider.gate({ pricing }).ready();
        const start = where === "query" ? `${base}?q=` : `${base}/`;
        const url = start + "a".repeat(length - start.length);
        const unpaid = await send(url);
        expect(unpaid.headers["payment-required"], "never dropped").to.be.a("string");
        const quote = quoteIn(unpaid.headers["payment-required"]);
        const [exact, upto] = ["exact", "upto"].map((scheme) =>
          quote.accepts.find((entry: { scheme: string }) => entry.scheme === scheme),
        );
        const { resource } = quote;
        expect((await send(url, { headers: await v2Headers(url) })).status).to.equal(200);
        expect(exact).to.not.equal(undefined);
        const paid = await send(url, { headers: permit2Headers(upto, { resource }) });
        expect(paid.status, paid.text).to.equal(200);
        const other = await send(`${base}/other`, { headers: await v2Headers(url) });
        expect(other.status, "it buys nothing else").to.equal(402);
      });
    }
  }

  it("all headers of a 402 stay below 4 KB, also with a page, signed offers and discovery", async () => {
    const { url } = await serve(
      {
        pricing: [...ONE_TIME, { type: "upto", max: 500_000n }],
        description: "價".repeat(2_000),
        discovery: { queryParams: { symbol: "ABC".repeat(100) }, output: { example: "x".repeat(500) } },
        page: true,
      } as GateOptions<never>,
      {
        offerReceipt: { key: keyOf("statements") },
        token: { address: TOKEN, name: "Test USD", version: "1", decimals: 6 },
      },
    );
    for (const accept of ["application/json", "text/html"]) {
      const bytes = await new Promise<number>((resolve, reject) => {
        const asked = httpRequest(`${url}?${"q".repeat(1_800)}`, { headers: { accept } }, (response) => {
          response.resume();
          resolve(response.rawHeaders.join("").length + 2 * response.rawHeaders.length + 50);
        });
        asked.on("error", reject).end();
      });
      expect(bytes, accept).to.be.within(3_000, 4_096);
    }
  });
});
