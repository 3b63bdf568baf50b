/** Sends every spelling of a path over a real socket to every framework: an unpaid spelling is not served. */
import { expect } from "chai";
import type { AcceptEntryWire } from "turnpike/protocol";
import { outcomeOf } from "../../../hostile/support/tricks/outcome";
import { CROSSINGS, TARGETS } from "../../../hostile/support/tricks/targets";
import { ask } from "../../../hostile/support/tricks/wire";
import { headerOf, proofOf } from "../../../support/gate";
import { ADAPTERS, PREFIX } from "../support/frameworks";
import { tricked } from "../support/tricked";

const PUBLIC_URL = "https://api.example";
/** "/:any" is a catch-all route: cheap, and it must never lead to the expensive one. */
const PRICES = { "/paid": 500_000n, "/dear": 9_000_000n, "/say%22": 7_000_000n, "/:any": 1n } as const;
const ROUTES = Object.fromEntries(
  Object.entries(PRICES).map(([path, amount]) => [path, [{ type: "one-time", amount }]]),
);

const SPELT = [
  ...TARGETS.map(([what, target]) => ({ what, target: target(`${PREFIX}/dear`) })),
  { what: "an escape, as it is", target: `${PREFIX}/say%22` },
  { what: "an escape written out", target: `${PREFIX}/say"` },
  { what: "an escape escaped", target: `${PREFIX}/say%2522` },
];
const CROSSED = CROSSINGS.flatMap(([what, target]) =>
  [
    [`${PREFIX}/cheap`, `${PREFIX}/dear`],
    [`${PREFIX}/dear`, `${PREFIX}/cheap`],
  ].map(([from = "", to = ""]) => ({ what, target: target(from, to) })),
);
const ALL = [...SPELT, ...CROSSED];

// Next.js uses the fetch wrapper here; test/frameworks runs the real one.
const { "a Next.js route handler": _next, ...FRAMEWORKS } = ADAPTERS;

for (const [name, start] of Object.entries(FRAMEWORKS)) {
  describe(`target attacks through ${name}`, function () {
    this.timeout(60_000);
    const at = tricked(start, { routes: ROUTES, publicUrl: PUBLIC_URL });

    const quoted = async (target: string) =>
      (await ask(at.server.url, { target }))?.json?.accepts?.[0] as AcceptEntryWire;
    const lineOf = (entry: AcceptEntryWire) => `X-PAYMENT: ${headerOf(proofOf(entry))["X-PAYMENT"]}`;

    it("C2 C5 no spelling is served unpaid or for another spelling's payment, and one resource has one price", async () => {
      const plain = `${PREFIX}/paid`;
      const line = lineOf(await quoted(plain));
      const priceOf = new Map<string, { amount: string | undefined; said: string }>();
      for (const { what, target } of ALL) {
        const said = `${what}: ${JSON.stringify(target).slice(0, 80)}`;
        const unpaid = await ask(at.server.url, { target });
        expect(outcomeOf(unpaid), said).to.be.oneOf(["asked", "no resource", "no HTTP", "elsewhere", "cut off"]);
        const { resource, amount } = unpaid?.json?.accepts?.[0] ?? {};
        const before = priceOf.get(resource) ?? { amount, said };
        expect(amount, `${resource}, as ${before.said} and as ${said}`).to.equal(before.amount);
        priceOf.set(resource, before);
        // Fetch-style servers resolve a target first: then the resolved target is what was paid for.
        if (resource === `${PUBLIC_URL}${plain}`) continue;
        const paid = await ask(at.server.url, { target, lines: [line] });
        expect(outcomeOf(paid), said).to.be.oneOf(["refused", "no resource", "no HTTP", "elsewhere", "cut off"]);
      }
      expect(at.served).to.equal(0);
      expect(priceOf.get(`${PUBLIC_URL}${PREFIX}/dear`)?.amount).to.equal("9000000");
      expect(outcomeOf(await ask(at.server.url, { target: plain, lines: [line] })), "still good").to.equal("served");
      expect(outcomeOf(await ask(at.server.url, { target: plain, lines: [line] }))).to.equal("used");
    });

    it("C5 a target with two readings is judged as it was sent", async () => {
      const readings = [`${PREFIX}/./dear`, `${PREFIX}/x/../dear`, `${PREFIX}/%2e/dear`, `${PREFIX}/x/%2E%2e/dear`];
      for (const target of readings) {
        expect(outcomeOf(await ask(at.server.url, { target })), target).to.be.oneOf([
          "no resource",
          "no HTTP",
          "elsewhere",
        ]);
      }
    });

    it("C2 a payment for one method does not buy another", async () => {
      const target = `${PREFIX}/paid`;
      const line = lineOf(await quoted(target));
      const METHODS = [
        ["HEAD", []],
        ["POST", []],
        ["PUT", []],
        ["PATCH", []],
        ["DELETE", []],
        ["OPTIONS", []],
        ["TRACE", []],
        ["QUERY", []],
        ["PURGE", []],
        ["PROPFIND", []],
        ["CONNECT", []],
        ["get", []],
        ["GETX", []],
        ["POST", ["X-HTTP-Method-Override: GET"]],
        ["POST", ["X-HTTP-Method: GET"]],
        ["POST", ["X-Method-Override: GET"]],
        ["HEAD", ["X-HTTP-Method-Override: GET"]],
      ] as const;
      for (const [method, lines] of METHODS) {
        const answer = await ask(at.server.url, { method, target, lines: [line, ...lines, "Content-Length: 0"] });
        const outcome = outcomeOf(answer);
        // A HEAD's refusal has no body to classify it by.
        const safe = method === "HEAD" ? ["asked"] : ["refused", "no HTTP", "elsewhere", "leave", "cut off"];
        if (answer?.status === 501) continue;
        expect(outcome, [method, ...lines].join(" ")).to.be.oneOf(safe);
      }
      expect(at.served).to.equal(0);
      expect(outcomeOf(await ask(at.server.url, { target, lines: [line] }))).to.equal("served");
    });

    it("C2 a payment buys the exact query", async () => {
      const line = lineOf(await quoted(`${PREFIX}/paid?a=1&b=2`));
      const QUERIES = ["", "?", "?a=1", "?b=2&a=1", "?a=1&b=2&", "?a=1&&b=2", "?a=1&b=2&b=3", "?a=1&b=%32", "?A=1&b=2"];
      for (const query of [
        ...QUERIES,
        "?a=1;b=2",
        "?a=1&amp;b=2",
        "?a=1&b=2%00",
        "?a=1&b=+2",
        "?a[]=1&b=2",
        "??a=1&b=2",
      ]) {
        const answer = await ask(at.server.url, { target: `${PREFIX}/paid${query}`, lines: [line] });
        expect(outcomeOf(answer), query).to.equal("refused");
      }
      expect(at.served).to.equal(0);
      const paid = await ask(at.server.url, { target: `${PREFIX}/paid?a=1&b=2`, lines: [line] });
      expect(outcomeOf(paid)).to.equal("served");
    });
  });
}
