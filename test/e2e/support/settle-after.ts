/** Standard payments that settle after the handler, with a real Facilitator and chain: who pays, and what leaves. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { expect } from "chai";
import { Contract, Wallet } from "ethers";
import { createProvider, gated, memoryClaims, type Provider } from "turnpike/gate";
import type { AcceptEntryWire } from "turnpike/protocol";
import { v1Headers } from "../../sdk/gate/support/standard";
import { addressOf, closeServer, keyOf, listen, PAY_TO, quoteOf, send } from "../../support/gate";
import type { World } from "../../support/sandbox";

const PRICE = 500_000n;

export function testSettlingAfter(running: () => World): void {
  let world: World;
  let gates: { provider: Provider; server: Server; url: string }[];
  let handle: (request: IncomingMessage, response: ServerResponse) => unknown;
  let runs = 0;
  let payers = 0;

  /** A gate with claims of its own: another provider, as far as the payment is concerned. */
  async function open() {
    const { contracts, facilitator } = world;
    const provider = createProvider({
      network: `local-${contracts.chainId}`,
      token: { address: contracts.token, name: contracts.tokenName, version: contracts.tokenVersion },
      payTo: PAY_TO,
      rpcUrl: world.chain.rpcUrl,
      facilitator: { url: facilitator.url, signers: [facilitator.signer] },
      secret: "a secret of this test, long enough to be one",
      claims: memoryClaims({ warn: false }),
    });
    const gate = provider.paymentGate({ pricing: [{ type: "one-time", amount: PRICE }], settle: "after" });
    const server = createServer(
      gated(gate, (request, response) => {
        runs++;
        return handle(request, response);
      }),
    );
    await gate.ready();
    return { provider, server, url: `${await listen(server)}/report` };
  }

  before(async () => {
    world = running();
    gates = [await open(), await open()];
  });
  after(async () => {
    for (const { server, provider } of gates) {
      await closeServer(server);
      await provider.close();
    }
  });
  beforeEach(() => {
    runs = 0;
    handle = (_request, response) => response.end("the content");
  });

  /** With money for one purchase. */
  async function newPayer(): Promise<string> {
    const name = `payer ${payers++}`;
    await world.contracts.mint(addressOf(name), PRICE);
    return name;
  }
  const at = (place: number) => (gates[place] as (typeof gates)[number]).url;
  const balanceOf = (payer: string) => world.contracts.balanceOf(addressOf(payer));
  async function payBy(payer: string, url = at(0)): Promise<Record<string, string>> {
    return v1Headers((await quoteOf(url)).accepts[0] as AcceptEntryWire, { payer }, { world: world as never });
  }

  it("HA20 charges once for an answer, and nothing for a failure, whose money is free again at once", async () => {
    const payer = await newPayer();
    handle = (_request, response) => response.writeHead(404).end("no such report");
    expect((await send(at(0), { headers: await payBy(payer) })).text).to.equal("no such report");
    expect(await balanceOf(payer)).to.equal(PRICE);
    handle = (_request, response) => response.end("the content");
    const headers = await payBy(payer, at(1));
    const answer = await send(at(1), { headers });
    expect([answer.status, answer.text]).to.deep.equal([200, "the content"]);
    expect(await balanceOf(payer)).to.equal(0n);
    expect((await send(at(1), { headers })).json.reason).to.equal("already_used");
  });

  it("HA21 gives nothing when the payer moves its balance away while the handler runs", async () => {
    const payer = await newPayer();
    const wallet = new Wallet(keyOf(payer), world.chain.provider);
    const rich = await world.chain.wallet("rich");
    await (await rich.sendTransaction({ to: wallet.address, value: 10n ** 17n })).wait();
    const token = new Contract(world.contracts.token, ["function transfer(address to, uint256 amount)"], wallet);
    handle = async (_request, response) => {
      await (await token.getFunction("transfer")(addressOf("accomplice"), PRICE)).wait();
      response.setHeader("X-Own", "secret");
      response.end("the content");
    };
    const headers = await payBy(payer);
    const answer = await send(at(0), { headers });
    expect(answer.status, answer.text).to.be.oneOf([402, 503]);
    expect(answer.text).not.to.include("the content");
    expect(answer.headers).not.to.have.property("x-own");
    expect(runs).to.equal(1);
  });

  it("HA22 runs one handler for one authorization at two gates, and for one balance that backs two", async () => {
    const [one, other] = [await newPayer(), await newPayer()];
    const same = await payBy(one);
    const [first, second] = [await payBy(other), await payBy(other, at(1))];
    const pairs = [
      [same, same],
      [first, second],
    ];
    for (const [i, pair] of pairs.entries()) {
      runs = 0;
      const answers = await Promise.all(pair.map((headers, place) => send(at(place), { headers })));
      expect(answers.map(({ status }) => status).sort(), answers.map(({ text }) => text).join()).to.deep.equal([
        200, 402,
      ]);
      expect(runs).to.equal(1);
      expect(await balanceOf(i === 0 ? one : other)).to.equal(0n);
    }
  });
}
