/** A dialect and a scheme that are not built in, before the real Facilitator: its money moves once, on a chain. */
import { expect } from "chai";
import { memoryClaims, type Provider } from "turnpike/gate";
import { addressOfKey, type Hex } from "turnpike/protocol";
import { toyPaid, toyReceipt } from "../../sdk/gate/toy/support/client";
import { toyProvider } from "../../sdk/gate/toy/support/provider";
import { testKey } from "../../support/chain";
import { addressOf, FRAMEWORKS, ONE_TIME, send, type TestServer } from "../../support/gate";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const [{ amount: PRICE }] = ONE_TIME;

describe("a toy dialect and a toy scheme before a Facilitator", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;
  let provider: Provider;
  let server: TestServer;
  let url: string;
  let status: number;
  /** the next answer to /settle gets lost */
  let isLosing = false;

  before(async () => {
    world = await startServiceWorld();
    service = await world.service({ RENEWALS: "false" });
    await world.contracts.mint(addressOf("payer"), 1_000_000_000n);
    const { token, tokenName, tokenVersion, turnpike } = world.contracts;
    provider = toyProvider({
      network: world.contracts.network,
      rpcUrl: world.chain.rpcUrl,
      turnpike,
      token: { address: token, name: tokenName, version: tokenVersion },
      payTo: world.payee,
      facilitator: { url: service.url, signers: [addressOfKey(testKey("proof signer") as Hex)] },
      secret: "a secret of these tests, the same for all gates",
      claims: memoryClaims({ warn: false }),
      pollMs: 50,
      async fetch(input, init) {
        const answer = await fetch(input, init);
        if (!isLosing || !input.endsWith("/settle")) return answer;
        isLosing = false;
        await answer.arrayBuffer();
        throw new TypeError("the connection broke off");
      },
    });
    const handle = () => async () => ({ status });
    server = await FRAMEWORKS.express(provider, [{ path: "/report", gate: { pricing: ONE_TIME } as never, handle }]);
    await provider.ready();
    url = `${server.url}/report`;
  });
  beforeEach(() => {
    status = 200;
  });
  after(async () => {
    await server?.stop();
    await provider?.close();
    await world?.stop();
  });

  const served = () => server.served.get("/report") ?? 0;
  const pay = async (key: string) => {
    const sent = { headers: { "Idempotency-Key": key } };
    return { headers: { ...(await toyPaid(await send(url, sent), { world })), ...sent.headers } };
  };
  const moved = async () => {
    const transfers = (await world.transfers()).filter(({ from }) => from === addressOf("payer"));
    return { transfers: transfers.length, received: await world.balanceOf(world.payee), served: served() };
  };
  const afterOne = ({ transfers, received, served: before }: Awaited<ReturnType<typeof moved>>) => ({
    transfers: transfers + 1,
    received: received + PRICE,
    served: before + 1,
  });

  it("HA1 moves the amount once, however often the payment is presented", async () => {
    const before = await moved();
    const paid = await pay("a-purchase-that-is-repeated");
    const first = await send(url, paid);
    expect(first.status, first.text).to.equal(200);
    expect(toyReceipt(first)).to.deep.include({ amount: String(PRICE) });
    const again = await send(url, paid);
    expect([again.status, again.text]).to.deep.equal([200, first.text]);
    const { "Idempotency-Key": _key, ...bare } = paid.headers;
    expect((await send(url, { headers: bare })).status, "of a stranger").to.equal(409);
    expect(await moved()).to.deep.equal(afterOne(before));
  });

  it("HA1 returns the answer after that of /settle was lost, and moves nothing a second time", async () => {
    const before = await moved();
    const paid = await pay("a-purchase-whose-answer-is-lost");
    isLosing = true;
    const lost = await send(url, paid);
    expect([lost.status, toyReceipt(lost)], lost.text).to.deep.equal([503, undefined]);
    expect(await moved(), "the money has moved").to.deep.equal(afterOne(before));
    for (let i = 0; i < 2; i++) {
      const answer = await send(url, paid);
      expect([answer.status, toyReceipt(answer)?.amount], answer.text).to.deep.equal([200, String(PRICE)]);
    }
    expect(await moved()).to.deep.equal(afterOne(before));
  });

  it("HA20 moves nothing for a handler that fails, and the same payment buys the next run", async () => {
    const before = await moved();
    const paid = await pay("a-purchase-whose-handler-fails");
    status = 500;
    const failed = await send(url, paid);
    expect([failed.status, toyReceipt(failed)]).to.deep.equal([500, undefined]);
    expect(await moved()).to.deep.equal({ ...before, served: before.served + 1 });
    status = 200;
    expect((await send(url, paid)).status).to.equal(200);
    expect(await moved()).to.deep.equal({ ...afterOne(before), served: before.served + 2 });
  });
});
