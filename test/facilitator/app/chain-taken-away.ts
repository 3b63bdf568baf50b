/** A chain of a deployment is taken away with payments over Permit2 that may have moved money, or may yet. */
import { expect } from "chai";
import type { X402RequestWire } from "turnpike/facilitator";
import { type Address, addressOfKey, type Hex, type TurnpikeError } from "turnpike/protocol";
import { placePermit2 } from "../../../scripts/sandbox/permit2";
import { testKey } from "../../support/chain";
import { BLOCK_MS, fund, until } from "../../support/facilitator";
import { approvedPayer, signPermit2 } from "../../support/permit2";
import { NETWORK_A, type SeveralService, startTwoChains, type TwoChains } from "../support/chains";
import type { ServiceWorld } from "../support/service";

const CHARGED = 100_000n;

describe("Facilitator: two chains, of which one is taken away", function () {
  this.timeout(300_000);
  const uptoKey = testKey("upto of the taken chain") as Hex;
  const upto = addressOfKey(uptoKey);
  let chains: TwoChains;
  let b: ServiceWorld;
  let service: SeveralService;

  /** `b` alone has a key that `upto` payments name. */
  const settings = () => {
    const section = `LOCAL_${b.chain.chainId}`;
    const keys = `${chains.env()[`${section}_RELAYER_KEYS`]},${uptoKey}`;
    return { PERMIT2: "true", RENEWALS: "false", [`${section}_RELAYER_KEYS`]: keys, [`${section}_UPTO_SIGNER`]: upto };
  };

  before(async () => {
    chains = await startTwoChains();
    b = chains.b;
    for (const world of [chains.a, b]) await placePermit2(world.chain);
    await fund(b.chain, upto);
    service = await chains.start(settings());
  });
  after(() => chains?.stop());

  const codeOf = ({ code }: TurnpikeError): string => code;
  const settle = (request: X402RequestWire) =>
    service.client.x402Settle(request).then((found) => (found.success ? "settled" : found.errorReason), codeOf);
  const verify = (request: X402RequestWire) =>
    service.client.x402Verify(request).then((found) => (found.isValid ? "valid" : found.invalidReason), codeOf);

  it("HD52 S5 its payments over Permit2 are answered as unknown, never as refused, and settle once when it is back", async () => {
    const sign = async (facilitator?: Address) =>
      signPermit2(b, { payer: await approvedPayer(b), maxTimeoutSeconds: 2, ...(facilitator && { facilitator }) });
    const [done, waiting, maximum, fresh] = [await sign(), await sign(), await sign(upto), await sign()];
    const charged = {
      ...maximum,
      paymentRequirements: { ...maximum.paymentRequirements, amount: `${CHARGED}` },
    } as X402RequestWire;
    await until(async () => (await settle(done)) === "settled", "it is settled");
    await b.chain.provider.send("evm_setIntervalMining", [0]);
    expect(await Promise.all([waiting, charged].map(settle))).to.deep.equal([
      "settlement_pending",
      "settlement_pending",
    ]);

    await service.stop();
    service = await chains.start({ ...settings(), CHAINS: NETWORK_A });
    for (const request of [done, waiting, charged, maximum]) {
      const answer = await service.post<{ code: string; network: string }>("/settle", request);
      expect([answer.status, answer.body.code]).to.deep.equal([503, "Unavailable"]);
      expect(answer.body.network, "the payment's own").to.equal(b.contracts.network);
      expect(await verify(request)).to.equal("Unavailable");
    }
    expect(await settle(fresh), "nothing of it was accepted").to.equal("invalid_exact_evm_network_mismatch");

    await b.chain.provider.send("evm_setIntervalMining", [BLOCK_MS]);
    await service.stop();
    service = await chains.start(settings());
    expect(await settle(done), "it has bought already").to.equal("payment_already_granted");
    for (const request of [waiting, charged, fresh])
      await until(async () => (await settle(request)) === "settled", "it is settled");
    const moved = await b.transfers();
    const movedBy = ({ paymentPayload: { payload } }: X402RequestWire) => {
      const { from: payer } = (payload as { permit2Authorization: { from: string } }).permit2Authorization;
      return moved.filter(({ from }) => from === payer).map(({ value }) => value);
    };
    expect([done, waiting, charged, fresh].map(movedBy)).to.deep.equal([[250_000n], [250_000n], [CHARGED], [250_000n]]);
  });
});
