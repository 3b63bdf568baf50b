import { createHash } from "node:crypto";
import { expect } from "chai";
import type { GateOptions, PricingEntry, Provider, ProviderOptions } from "turnpike/gate";
import {
  type Answer,
  NOW,
  ONE_TIME,
  PAY_TO,
  paidHeaders,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  TOKEN,
  testProvider,
} from "../../../support/gate";
import { ADAPTERS, type AdapterServer, PREFIX } from "../support/frameworks";

const BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
const PLAN = `0x${"12".repeat(32)}`;
const token = { address: TOKEN, name: "Test USD", version: "1", decimals: 6, symbol: "tUSD" };

describe("gate > page", () => {
  let facilitator: SmallFacilitator;
  let provider: Provider;
  const stops: (() => Promise<unknown>)[] = [];

  beforeEach(async () => {
    facilitator = await startSmallFacilitator();
    provider = providerWith({ token });
    stops.push(() => facilitator.stop());
  });
  afterEach(async () => {
    for (const stop of stops.splice(0).reverse()) await stop();
  });

  function providerWith(options: ProviderOptions): Provider {
    const made = testProvider(facilitator, options);
    stops.push(() => made.close());
    return made;
  }

  async function serve(
    start: (typeof ADAPTERS)[string],
    routes: Readonly<Record<string, Partial<GateOptions>>>,
  ): Promise<AdapterServer> {
    const server = await start(
      provider,
      Object.entries(routes).map(([path, gate]) => ({
        path,
        gate: { pricing: ONE_TIME, ...gate } as GateOptions<never>,
        handle: () => ({ headers: { "Content-Type": "text/html" }, body: "<p>content" }),
      })),
    );
    stops.push(() => server.stop());
    return server;
  }

  const opened = (server: AdapterServer, path: string, headers: Record<string, string> = {}): Promise<Answer> =>
    send(`${server.url}${PREFIX}${path}`, { headers: { Accept: BROWSER, ...headers } });

  for (const [name, start] of Object.entries(ADAPTERS)) {
    it(`C34 answers a browser with a page and every other client with the same JSON as without, through ${name}`, async () => {
      const server = await serve(start, { "/paid": { page: true }, "/same": {} });
      const page = await opened(server, "/paid");
      expect([page.status, page.headers["content-type"]]).to.deep.equal([402, "text/html; charset=utf-8"]);
      expect(page.text).to.match(/^<!doctype html>[\s\S]+<\/html>\n$/);
      expect(page.text).to.contain("0.50 tUSD");
      expect(page.headers["cache-control"]).to.equal("private, no-store");
      expect(page.headers.vary).to.match(/(^|, )Accept$/);
      expect(page.headers).to.include.keys("payment-required", "content-security-policy");

      for (const accept of [undefined, "*/*", "application/json", "text/html, application/json"]) {
        // The same purchase: one key, one memo.
        const headers = {
          "Idempotency-Key": "one key of one client",
          ...(accept === undefined ? {} : { Accept: accept }),
        };
        const url = `${server.url}${PREFIX}`;
        const [paged, plain] = [await send(`${url}/paid`, { headers }), await send(`${url}/same`, { headers })];
        expect(withoutMemo(paged.text), accept).to.equal(withoutMemo(plain.text).replaceAll("/same", "/paid"));
        expect(paged.headers.vary).to.equal(`${plain.headers.vary}, Accept`);
        for (const header of ["content-type", "cache-control", "access-control-allow-origin"]) {
          expect(paged.headers[header], header).to.equal(plain.headers[header]);
        }
        expect(paged.headers).not.to.include.keys("content-security-policy");
      }
      const paid = await opened(server, "/paid", await paidHeaders(`${server.url}${PREFIX}/paid`));
      expect([paid.status, paid.text]).to.deep.equal([200, "<p>content"]);
      const refused = await opened(server, "/paid", { "X-PAYMENT": "bm90aGluZw==" });
      expect([refused.status, refused.json?.error]).to.deep.equal([402, "InvalidPaymentProof"]);
      const posted = await send(`${server.url}${PREFIX}/paid`, { method: "POST", headers: { Accept: BROWSER } });
      expect(posted.json?.error).to.equal("PaymentRequired");
    });
  }

  it("C31 C35 allows one script by its hash, and no text of the provider or the client to become markup", async () => {
    const attack = `</script><script>alert(1)</script>"'><img src=x onerror=alert(1)>`;
    const hostile = { ...token, symbol: attack };
    provider = providerWith({ token: hostile });
    const options = { page: true, description: attack, mimeType: attack };
    const server = await serve(ADAPTERS["node:http"] as never, { "/paid": options });
    const { text, headers } = await opened(server, `/paid?q='%22%3E${encodeURIComponent(attack)}<script>`);
    const scripts = [...text.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(([, script = ""]) => script);
    expect(scripts).to.have.length(1);
    expect(text).not.to.match(/<img|onerror=alert\(1\)>|<script>alert/);
    const hash = createHash("sha256")
      .update(scripts[0] ?? "")
      .digest("base64");
    expect(headers["content-security-policy"]).to.equal(
      `default-src 'none'; script-src 'sha256-${hash}'; style-src 'unsafe-inline'; img-src 'self' blob: data:; ` +
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    );
    expect(Buffer.byteLength(scripts[0] ?? "")).to.be.below(15_000);
    expect(text).not.to.match(/(?:src|href)=["']?(?:https?:)?\/\//);
  });

  it("C32 C33 sends the same headers whatever is requested", async () => {
    const description = "A report\r\nSet-Cookie: a=b";
    const server = await serve(ADAPTERS["Express 5"] as never, { "/paid": { page: true, description } });
    const targets = ["/paid", "/paid?x=%0d%0aSet-Cookie:%20a=b", "/paid?%E2%80%A8", `/paid?${"x".repeat(1_000)}`];
    for (const target of targets) {
      const { headers, text } = await opened(server, target);
      expect(headers["set-cookie"], target).to.equal(undefined);
      expect(text).to.match(/^<!doctype html>/);
      expect(headers).to.include({
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin-allow-popups",
      });
      expect(headers["content-security-policy"]).to.match(/frame-ancestors 'none'/);
    }
  });

  it("lists the best price of each token and network, the cheapest first", async () => {
    const pricing: PricingEntry[] = [
      {
        type: "one-time",
        prices: [
          { amount: 500_000 },
          { amount: 900_000 },
          {
            network: "base-sepolia",
            payTo: PAY_TO,
            price: "$0.25",
            facilitator: { url: facilitator.url, signers: [facilitator.signer] },
          },
        ],
      },
    ];
    const server = await serve(ADAPTERS.Hono as never, { "/paid": { page: true, pricing } });
    const { text } = await opened(server, "/paid");
    expect(text).to.match(
      /<b>0\.25 USDC<\/b><span>Base Sepolia<\/span>[\s\S]+<b>0\.50 tUSD<\/b><span>Local 31337<\/span>/,
    );
    const [, quoted = "{}"] = /data-terms="([^"]*)"/.exec(text) ?? [];
    const terms = JSON.parse(quoted.replaceAll("&quot;", '"').replaceAll("&amp;", "&"));
    expect(terms.quoteLifeSec).to.equal(600);
    expect(terms.options.map(({ chainId }: { chainId: number }) => chainId)).to.deep.equal([84_532, 31_337]);
    for (const { entry } of terms.options) expect(Number(entry.memo.split(".")[2])).to.equal(NOW + 600);
  });

  it("refuses at start what no browser could buy, and names the option", () => {
    const facts: [Partial<GateOptions>, ProviderOptions, RegExp][] = [
      [{ page: "yes" as never }, { token }, /^page is "yes": use true or false/],
      [
        { pricing: [{ type: "subscription", plan: PLAN }] },
        { token },
        /^page is set, but pricing has no one-time entry/,
      ],
      [{ bind: "body" }, { token }, /^page is set beside bind: "body"/],
      [{ discovery: { body: { text: "a" } } }, { token }, /^page is set beside discovery\.body/],
      [{}, {}, /^page is set, but the decimals of token 0x\w+ on local-31337 are not: set token\.decimals/],
    ];
    for (const [options, more, message] of facts) {
      const at = providerWith({ rpcUrl: "http://127.0.0.1:9", turnpike: PAY_TO, ...more });
      const make = () => at.gate({ pricing: ONE_TIME, page: true, ...options } as GateOptions);
      expect(make).to.throw(message).with.property("code", "ConfigError");
    }
  });
});

/** A memo's MAC covers the path. */
const withoutMemo = (text: string): string => text.replaceAll(/"memo":"[^"]+"/g, '"memo":""');
