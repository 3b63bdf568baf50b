/** Every way to hand a payment over, over a real socket, before every framework: one reading or none. */
import { expect } from "chai";
import type { AcceptEntryWire } from "turnpike/protocol";
import { HEADS } from "../../../hostile/support/tricks/heads";
import { outcomeOf } from "../../../hostile/support/tricks/outcome";
import { ask } from "../../../hostile/support/tricks/wire";
import { headerOf, proofOf } from "../../../support/gate";
import { ADAPTERS, PREFIX } from "../support/frameworks";
import { PAID_ROUTE, tricked } from "../support/tricked";

const PUBLIC_URL = "https://api.example";
const TARGET = `${PREFIX}/paid`;
const { "a Next.js route handler": _next, ...FRAMEWORKS } = ADAPTERS;

for (const [name, start] of Object.entries(FRAMEWORKS)) {
  describe(`tricks with headers, through ${name}`, function () {
    this.timeout(60_000);
    const at = tricked(start, { routes: PAID_ROUTE, publicUrl: PUBLIC_URL });

    async function payment(): Promise<string> {
      const quote = await ask(at.server.url, { target: TARGET });
      return headerOf(proofOf(quote?.json?.accepts?.[0] as AcceptEntryWire))["X-PAYMENT"];
    }
    const show = (lines: readonly string[], target = TARGET) => ask(at.server.url, { target, lines });

    it("C7 C8 what has one reading is served once, and what has two or none is not", async () => {
      const kept = await payment();
      for (const [what, lines, safe] of HEADS) {
        const own = safe === "served" ? await payment() : kept;
        const answer = await show(lines(own));
        expect(outcomeOf(answer), what).to.equal(safe);
        if (safe === "served") expect(outcomeOf(await show(lines(own))), `${what}, again`).to.equal("used");
        if (safe === "ambiguous")
          expect(answer?.json.message, what).to.match(/x-payment|PAYMENT-SIGNATURE|x-service-sub|sign-in|`version`/i);
        if (safe === "malformed") expect(answer?.json.message, what).to.match(/^(X-PAYMENT|PAYMENT-SIGNATURE) /);
      }
      expect(at.served).to.equal(HEADS.filter(([, , safe]) => safe === "served").length);
      expect(outcomeOf(await show([`X-PAYMENT: ${kept}`])), "not one of them cost the payment").to.equal("served");
    });

    it("C5 no Host changes what is bought", async () => {
      const HOSTS: readonly (readonly [what: string, hosts: readonly string[]])[] = [
        ["another host", ["Host: evil.example"]],
        ["loopback", ["Host: 127.0.0.1"]],
        ["with a path", [`Host: api.example${PREFIX}/free`]],
        ["with a query", ["Host: api.example?"]],
        ["with a fragment", ["Host: api.example#"]],
        ["with credentials", ["Host: a:b@api.example"]],
        ["with a backslash", ["Host: api.example\\evil"]],
        ["with a space", ["Host: api.example evil"]],
        ["above ASCII, of the length of its punycode", ["Host: \xe9/api/x"]],
        ["empty", ["Host:"]],
        ["two of them", ["Host: api.example", "Host: evil.example"]],
        ["none", []],
      ];
      const line = `X-PAYMENT: ${await payment()}`;
      for (const [what, hosts] of HOSTS) {
        const quote = await ask(at.server.url, { target: TARGET, hosts });
        const { resource } = quote?.json?.accepts?.[0] ?? {};
        expect(outcomeOf(quote), what).to.be.oneOf(["asked", "no HTTP", "elsewhere"]);
        if (resource !== undefined && new URL(resource).pathname === TARGET)
          expect(resource, what).to.equal(`${PUBLIC_URL}${TARGET}`);
        const other = await ask(at.server.url, { target: `${TARGET}?other`, hosts, lines: [line] });
        expect(outcomeOf(other), what).to.be.oneOf(["refused", "no HTTP", "elsewhere"]);
      }
      expect(at.served).to.equal(0);
      const old = await ask(at.server.url, { target: TARGET, version: "1.0", hosts: [], lines: [line] });
      expect(outcomeOf(old), "HTTP/1.0 without a Host").to.equal("served");
    });
  });
}
