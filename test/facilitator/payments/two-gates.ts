import { expect } from "chai";
import { createProvider, memoryClaims, type Provider } from "turnpike/gate";
import { type AcceptEntryWire, addressOfKey, encodeJsonHeader, type Hex } from "turnpike/protocol";
import { tryReplays } from "../../hostile/support/replays";
import { requiredIn, v1Headers, v2Headers } from "../../sdk/gate/support/standard";
import { testKey } from "../../support/chain";
import {
  type Answer,
  addressOf,
  FRAMEWORKS,
  keyOf,
  ONE_TIME,
  quoteOf,
  send,
  type TestServer,
} from "../../support/gate";
import { variants } from "../../support/variants";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

type Headers = Record<string, string>;

/**
 * Two gates of one provider: the same payee, price, secret and Facilitator, but each with claims of its own. Whatever was
 * paid at one is public in calldata as soon as it is sent, and buys nothing at the other.
 */
for (const verify of variants(["facilitator", "onchain", "signature"] as const)) {
  describe(`two gates with claims of their own, one Facilitator (verify: ${verify})`, function () {
    this.timeout(120_000);
    let world: ServiceWorld;
    let service: Service;
    /** the next answer to /settle gets lost */
    let isLosing = false;
    let gates: { provider: Provider; server: TestServer; url: string }[];

    before(async () => {
      world = await startServiceWorld();
      service = await world.service({ RENEWALS: "false" });
      await world.contracts.mint(addressOf("payer"), 1_000_000_000n);
      gates = [];
      for (const framework of ["express", "hono"] as const) {
        const { token, tokenName, tokenVersion, turnpike } = world.contracts;
        const provider = createProvider({
          network: world.contracts.network,
          rpcUrl: world.chain.rpcUrl,
          turnpike,
          token: { address: token, name: tokenName, version: tokenVersion },
          payTo: world.payee,
          facilitator: { url: service.url, signers: [addressOfKey(testKey("proof signer") as Hex)] },
          secret: "a secret of these tests, the same for both gates",
          claims: memoryClaims({ warn: false }),
          pollMs: 50,
          verify,
          async fetch(input, init) {
            const answer = await fetch(input, init);
            if (!isLosing || !input.endsWith("/settle")) return answer;
            isLosing = false;
            await answer.arrayBuffer();
            throw new TypeError("the connection broke off");
          },
        });
        const server = await FRAMEWORKS[framework](provider, [{ path: "/report", gate: { pricing: ONE_TIME } }]);
        await provider.ready();
        gates.push({ provider, server, url: `${server.url}/report` });
      }
    });
    after(async () => {
      for (const { provider, server } of gates ?? []) {
        await server.stop();
        await provider.close();
      }
      await world?.stop();
    });

    const at = (index: number) => gates[index] as (typeof gates)[number];
    const transfers = async () => (await world.transfers()).filter(({ from }) => from === addressOf("payer")).length;
    const served = () => gates.map(({ server }) => server.served.get("/report") ?? 0);

    async function pay(url: string, version: 1 | 2): Promise<{ headers: Headers; answer: Answer }> {
      const [entry] = (await quoteOf(url)).accepts as [AcceptEntryWire];
      const headers: Headers =
        version === 1 ? await v1Headers(entry, {}, { world }) : await v2Headers(url, {}, {}, { world });
      return { headers, answer: await send(url, { headers }) };
    }

    /** What anyone can do with the chain's calldata: the same authorization in every form, with the victim's quotes or its own. */
    async function stolen(headers: Headers, url: string): Promise<Headers[]> {
      const [text] = Object.values(headers) as [string];
      const { payload } = JSON.parse(Buffer.from(text, "base64").toString("utf8"));
      const answer = await send(url);
      const [entry] = answer.json.accepts as [AcceptEntryWire];
      const [accepted] = requiredIn(answer).accepts;
      const v2 = (more: object) => ({
        "PAYMENT-SIGNATURE": encodeJsonHeader({ x402Version: 2, payload, accepted, ...more }),
      });
      return [
        headers,
        { "X-PAYMENT": encodeJsonHeader({ x402Version: 1, scheme: "exact", network: entry.network, payload }) },
        v2({ resource: { url } }),
        v2({}),
        v2({ resource: { url: "https://made.up/" } }),
      ];
    }

    for (const version of [1, 2] as const) {
      it(`HA1 serves a version ${version} payment once, whatever a stranger makes of it, at either gate`, async () => {
        for (const [here, there] of [
          [0, 1],
          [1, 0],
        ] as const) {
          const before = { transfers: await transfers(), served: served() };
          const { headers, answer } = await pay(at(here).url, version);
          expect(answer.status, answer.text).to.equal(200);
          for (const where of [there, here]) {
            for (const copy of await stolen(headers, at(where).url)) {
              const again = await send(at(where).url, { headers: copy });
              expect(again.status, again.text).to.equal(402);
            }
          }
          const counts = [...before.served];
          counts[here] = (counts[here] ?? 0) + 1;
          expect(served()).to.deep.equal(counts);
          expect(await transfers()).to.equal(before.transfers + 1);
        }
      });

      it(`HA1 serves one of many that present one version ${version} payment at both gates at once`, async () => {
        const before = { transfers: await transfers(), served: served() };
        const url = at(0).url;
        const [entry] = (await quoteOf(url)).accepts as [AcceptEntryWire];
        const headers: Headers =
          version === 1 ? await v1Headers(entry, {}, { world }) : await v2Headers(url, {}, {}, { world });
        const copies = [
          ...(await stolen(headers, url)).map((each) => [0, each] as const),
          ...(await stolen(headers, at(1).url)).map((each) => [1, each] as const),
        ];
        const answers = await Promise.all(copies.map(([where, each]) => send(at(where).url, { headers: each })));
        expect(answers.filter(({ status }) => status === 200)).to.have.length(1);
        expect(served().reduce((a, b) => a + b)).to.equal(before.served.reduce((a, b) => a + b) + 1);
        expect(await transfers()).to.equal(before.transfers + 1);
      });
    }

    it("HA1 HA3 HA8 give the hostile battery nothing that it did not pay for", async () => {
      const found: string[] = [];
      for await (const { id, kind, saw } of tryReplays([at(0).url, at(1).url], keyOf("payer"))) {
        if (kind === "unsafe") found.push(`${id}: ${saw}`);
      }
      expect(found).to.deep.equal([]);
    });

    it("HA1 serves the retry of a payment whose grant was lost on its way to the gate", async () => {
      const { server, url } = at(0);
      const before = { transfers: await transfers(), served: server.served.get("/report") ?? 0 };
      isLosing = true;
      const { headers, answer } = await pay(url, 1);
      expect(answer.status, answer.text).to.equal(503);
      expect(await transfers(), "the money has moved").to.equal(before.transfers + 1);
      const [entry] = (await quoteOf(at(1).url)).accepts;
      expect(entry, "the other gate asks for the same").to.include({ payTo: world.payee });
      expect((await send(at(1).url, { headers })).status, "and is not granted it").to.equal(402);
      expect((await send(url, { headers })).status).to.equal(200);
      expect(server.served.get("/report")).to.equal(before.served + 1);
      expect(await transfers()).to.equal(before.transfers + 1);
    });
  });
}
