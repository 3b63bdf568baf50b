import { expect } from "chai";
import { RIGHTS, setOperator, turnpikeInterface } from "turnpike/chain";
import { createFacilitatorClient, type DebitAnswer } from "turnpike/facilitator";
import type { Hex } from "turnpike/protocol";
import { signupArgs } from "../../../support/acts";
import { BLOCK_MS, until } from "../../../support/facilitator";
import { type Service, type ServiceWorld, type Signup, startServiceWorld } from "../../support/service";

const MAX = 5_000_000n;

describe("Facilitator: debits of a signup that a reorganisation removes", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;
  let debit: (item: { idHash: Hex; amount: string; index: number }) => Promise<DebitAnswer | undefined>;

  before(async () => {
    world = await startServiceWorld();
    service = await world.service({ RENEWALS: "false", AUTHORIZE_WAIT_MS: "0", FINALITY_DEPTH: "800" });
    for (const account of (await service.client.supported()).relayers) {
      await setOperator(world.provider, world.contracts.turnpike, {
        planId: world.planId,
        account,
        rights: RIGHTS.debit,
      });
    }
    const client = createFacilitatorClient({
      url: service.url,
      apiKey: await service.apiKey({ scopes: ["debits"] }),
    });
    debit = async (item) => {
      const outcome = await client.debits([item]);
      if (outcome.kind === "refused") throw outcome.error;
      return outcome.results[0];
    };
  });
  after(() => world.stop());

  const rpc = (method: string, params: unknown[] = []) => world.chain.provider.send(method, params);

  /** By a stranger, so that the service has no transaction of its own to repeat */
  async function send({ request }: Signup): Promise<void> {
    const stranger = await world.chain.wallet("stranger");
    const args = signupArgs(request.subscriber, request, request);
    const data = turnpikeInterface.encodeFunctionData("subscribe", args);
    const fees = { maxFeePerGas: 10n ** 12n, maxPriorityFeePerGas: 10n ** 11n };
    await stranger.sendTransaction({ to: world.contracts.turnpike, data, gasLimit: 1_400_000n, ...fees });
  }

  it("A28 B8 stays pending while its transaction may be mined after the signup, and is collected once", async () => {
    const subscriber = await world.payer(1_000_000_000n);
    const signup = await world.signup(subscriber, { permit: 1_000_000_000n, maxOverage: MAX });
    const { idHash } = signup;
    const item = { idHash, amount: "300000", index: 0 };
    const isShown = async (status: number) => (await fetch(`${service.url}/subscriptions/${idHash}`)).status === status;
    await rpc("evm_setIntervalMining", [0]);
    const snapshot = await rpc("evm_snapshot");
    await send(signup);
    await rpc("evm_mine");
    await until(() => isShown(200), "the signup is indexed");
    const before = await world.balanceOf(world.payee);
    await until(async () => (await debit(item))?.status === "pending", "the debit is sent");

    await rpc("evm_revert", [snapshot]);
    await rpc("hardhat_setNextBlockBaseFeePerGas", ["0x77359400"]);
    // All at once, so that the relayer cannot have its transaction mined without the signup.
    await rpc("hardhat_mine", ["0x3"]);
    await until(() => isShown(404), "the signup is removed");
    expect(await debit(item)).to.deep.equal({ status: "pending", idHash, index: 0 });

    await send(signup);
    await rpc("evm_setIntervalMining", [BLOCK_MS]);
    await until(async () => (await debit(item))?.status === "settled", "the debit is collected");
    expect((await world.balanceOf(world.payee)) - before).to.equal(300_000n);
  });
});
