/** What a client says of its own origin, where a gate trusts a proxy: it may name a host, and nothing else. */
import { expect } from "chai";
import type { Provider } from "turnpike/gate";
import { outcomeOf } from "../../../hostile/support/tricks/outcome";
import { ask } from "../../../hostile/support/tricks/wire";
import {
  FRAMEWORKS,
  type Framework,
  headerOf,
  proofOf,
  type SmallFacilitator,
  startSmallFacilitator,
  type TestServer,
  testProvider,
} from "../../../support/gate";

const DEAR = "https://api.example/dear/report";
const HTTPS = "X-Forwarded-Proto: https";

/** Each would let the quote of the cheap `/report` name the dear `/dear/report`, or something else that is no host. */
const FORWARDED: readonly (readonly [what: string, lines: readonly string[]])[] = [
  ["a host with a path", [HTTPS, "X-Forwarded-Host: api.example/dear"]],
  ["a host with a path and a slash", [HTTPS, "X-Forwarded-Host: api.example/dear/"]],
  ["a host with a path and a query", [HTTPS, "X-Forwarded-Host: api.example/dear?x="]],
  ["a host with a path and a fragment", [HTTPS, "X-Forwarded-Host: api.example/dear#"]],
  ["a host with a query", [HTTPS, "X-Forwarded-Host: api.example?"]],
  ["a host with a backslash", [HTTPS, "X-Forwarded-Host: api.example\\dear"]],
  ["a host with credentials", [HTTPS, "X-Forwarded-Host: a:b@api.example"]],
  ["a host behind an at sign", [HTTPS, "X-Forwarded-Host: @api.example"]],
  ["a host with a space", [HTTPS, "X-Forwarded-Host: api.example dear"]],
  ["a host with an escape", [HTTPS, "X-Forwarded-Host: api%2eexample"]],
  ["a host with a byte above ASCII", [HTTPS, "X-Forwarded-Host: api.ex\xe4mple"]],
  ["a host with a scheme", [HTTPS, "X-Forwarded-Host: https://api.example"]],
  ["a port that is none", [HTTPS, "X-Forwarded-Host: api.example:99999"]],
  ["a port with a path", [HTTPS, "X-Forwarded-Host: api.example:443/dear"]],
  ["the first of two hosts", [HTTPS, "X-Forwarded-Host: api.example/dear, api.example"]],
  [
    "a scheme with a host and a path",
    ["X-Forwarded-Proto: https://api.example/dear?", "X-Forwarded-Host: api.example"],
  ],
  ["a scheme with a fragment", ["X-Forwarded-Proto: https://api.example/dear#", "X-Forwarded-Host: api.example"]],
  ["another scheme", ["X-Forwarded-Proto: javascript", "X-Forwarded-Host: api.example"]],
  ["a scheme with a colon", ["X-Forwarded-Proto: https:", "X-Forwarded-Host: api.example"]],
  ...[
    "dear",
    "//dear",
    "/dear//x",
    "/../dear",
    "/x/..",
    "/.",
    "/de%61r",
    "/dear?x=",
    "/dear#",
    "/dear\\",
    "/dear;v=1",
    "/de ar",
    "https://api.example/dear",
    "@api.example",
    ":8443/dear",
    "/dear, /dear",
    "/dear,",
    `/${"d".repeat(256)}`,
  ].map((prefix): [string, string[]] => [
    `the prefix ${prefix}`,
    [HTTPS, "X-Forwarded-Host: api.example", `X-Forwarded-Prefix: ${prefix}`],
  ]),
  ["two prefixes", [HTTPS, "X-Forwarded-Host: api.example", "X-Forwarded-Prefix: /dear", "X-Forwarded-Prefix: /dear"]],
];

for (const framework of Object.keys(FRAMEWORKS) as Framework[]) {
  describe(`tricks with the origin behind a proxy, through ${framework}`, () => {
    let facilitator: SmallFacilitator;
    let provider: Provider;
    let server: TestServer;

    before(async () => {
      facilitator = await startSmallFacilitator();
      provider = testProvider(facilitator, { trustProxy: true });
      server = await FRAMEWORKS[framework](provider, [
        { path: "/report", gate: { pricing: [{ type: "one-time", amount: 1n }] } },
        { path: "/dear/report", gate: { pricing: [{ type: "one-time", amount: 9_000_000n }] } },
      ]);
    });
    after(async () => {
      await server.stop();
      await provider.close();
      await facilitator.stop();
    });

    it("C4 C5 no forwarded header makes one route's quote another one's", async () => {
      for (const [what, lines] of FORWARDED) {
        const cheap = await ask(server.url, { target: "/report", lines });
        expect(outcomeOf(cheap), what).to.equal("no resource");
        expect(cheap?.json.message, what).to.include("X-Forwarded-");
      }
    });

    it("C5 a Host with a path is none either", async () => {
      const hosts = ["Host: api.example/dear"];
      const cheap = await ask(server.url, { target: "/report", hosts, lines: [HTTPS] });
      expect(outcomeOf(cheap)).to.be.oneOf(["no resource", "no HTTP"]);
    });

    it("takes hosts as proxies write them", async () => {
      const HOSTS = [
        ["X-Forwarded-Host: api.example", "https://api.example/dear/report"],
        ["X-Forwarded-Host: api.example:8443", "https://api.example:8443/dear/report"],
        ["X-Forwarded-Host: API.example:443", "https://api.example/dear/report"],
        ["X-Forwarded-Host: [::1]:8443", "https://[::1]:8443/dear/report"],
        ["X-Forwarded-Host: api.example, proxy.example", "https://api.example/dear/report"],
      ] as const;
      for (const [line, resource] of HOSTS) {
        const quote = await ask(server.url, { target: "/dear/report", lines: [HTTPS, line] });
        expect(quote?.json.accepts[0].resource, line).to.equal(resource);
      }
    });

    it("puts the prefix that a proxy strips before the path", async () => {
      const host = "X-Forwarded-Host: api.example";
      for (const [prefix, resource] of [
        ["/api", "https://api.example/api/report?q=1"],
        ["/api/v1.2/", "https://api.example/api/v1.2/report?q=1"],
        ["/", "https://api.example/report?q=1"],
        ["", "https://api.example/report?q=1"],
      ]) {
        const lines = [HTTPS, host, `X-Forwarded-Prefix: ${prefix}`];
        const quote = await ask(server.url, { target: "/report?q=1", lines });
        expect(quote?.json.accepts[0].resource, prefix).to.equal(resource);
        const line = `X-PAYMENT: ${headerOf(proofOf(quote?.json.accepts[0]))["X-PAYMENT"]}`;
        const paid = await ask(server.url, { target: "/report?q=1", lines: [...lines, line] });
        expect(outcomeOf(paid), prefix).to.equal("served");
      }
    });

    it("C2 a quote of the cheap route under a prefix does not buy the dear route that it names", async () => {
      const lines = [HTTPS, "X-Forwarded-Host: api.example"];
      const cheap = await ask(server.url, { target: "/report", lines: [...lines, "X-Forwarded-Prefix: /dear"] });
      expect(cheap?.json.accepts[0]).to.include({ resource: DEAR, amount: "1" });
      const line = `X-PAYMENT: ${headerOf(proofOf(cheap?.json.accepts[0]))["X-PAYMENT"]}`;
      const dear = await ask(server.url, { target: "/dear/report", lines: [...lines, line] });
      expect(outcomeOf(dear)).to.equal("refused");
    });

    it("C2 a payment behind one host buys nothing behind another", async () => {
      const lines = [HTTPS, "X-Forwarded-Host: api.example"];
      const quote = await ask(server.url, { target: "/dear/report", lines });
      expect(quote?.json.accepts[0].resource).to.equal(DEAR);
      const line = `X-PAYMENT: ${headerOf(proofOf(quote?.json.accepts[0]))["X-PAYMENT"]}`;
      for (const other of [
        [HTTPS, "X-Forwarded-Host: evil.example"],
        ["X-Forwarded-Proto: http", "X-Forwarded-Host: api.example"],
        [HTTPS, "X-Forwarded-Host: api.example:444"],
      ]) {
        const answer = await ask(server.url, { target: "/dear/report", lines: [...other, line] });
        expect(outcomeOf(answer), other.join()).to.equal("refused");
      }
      const paid = await ask(server.url, { target: "/dear/report", lines: [...lines, line] });
      expect(outcomeOf(paid)).to.equal("served");
    });
  });
}
