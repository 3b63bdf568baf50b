import { expect } from "chai";
import { until } from "../../support/facilitator";
import { NETWORK_A, NETWORK_B, startTwoChains, type TwoChains } from "../support/chains";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Ended, type Program } from "../support/processes";

/** Nothing listens there. */
const NOWHERE = "http://127.0.0.1:1";

describe("Facilitator: doctor and reconcile on two chains", function () {
  this.timeout(400_000);
  let chains: TwoChains;
  let program: Program;

  before(async () => {
    chains = await startTwoChains();
    program = buildProgram();
    const service = await chains.start();
    for (const world of [chains.a, chains.b]) {
      const signed = paymentToWire(await world.signPayment());
      await until(async () => (await service.client.authorize(signed)).kind === "settled", "it is settled");
    }
    await service.stop();
  });
  after(async () => {
    program?.remove();
    await chains?.stop();
  });

  const run = (args: readonly string[], more: Record<string, string> = {}): Promise<Ended> =>
    program.run(args, chains.env(more));
  const awayB = { LOCAL_31338_RPC_URLS: NOWHERE };

  it("HD33 doctor names the chain in each line", async () => {
    const { status, stdout } = await run(["doctor"]);
    expect(stdout).not.to.match(/^fail/m);
    expect(status).to.equal(0);
    for (const network of [NETWORK_A, NETWORK_B]) {
      expect(stdout).to.match(new RegExp(`^ok   ${network}: RPC 1 .*serves chain`, "m"));
      expect(stdout).to.match(new RegExp(`^ok   ${network}: TURNPIKE: `, "m"));
    }
    for (const line of stdout.trim().split("\n")) expect(line).to.match(/^\w+ +local-3133[78]: /);
  });

  it("HD33 doctor checks the other chain where one is away, and exits with 1", async () => {
    const { status, stdout } = await run(["doctor"], awayB);
    expect(status).to.equal(1);
    expect(stdout).to.match(/^fail local-31338: RPC 1 /m);
    expect(stdout).to.match(/^ok {3}local-31337: RPC 1 /m);
    expect(stdout).not.to.match(/^fail local-31337/m);
    expect((await run(["doctor", "--chain", NETWORK_A], awayB)).status).to.equal(0);
    expect((await run(["doctor", "--chain", NETWORK_B], awayB)).status).to.equal(1);
    const none = await run(["doctor", "--chain", "base-mainnet"]);
    expect(none.status).to.equal(1);
    expect(none.stdout).to.contain(`--chain is base-mainnet: use ${NETWORK_A} or ${NETWORK_B}`);
  });

  it("HD33 reconcile names each chain; one that is away is 2, and a difference on the other one is 1", async () => {
    const both = await run(["reconcile"]);
    const agree = "database and chain agree";
    expect(both).to.deep.include({ status: 0, stdout: `${NETWORK_A}: ${agree}\n${NETWORK_B}: ${agree}\n` });
    const one = await run(["reconcile"], awayB);
    expect(one.stdout).to.match(
      /^local-31337: database and chain agree\nlocal-31338: could not be checked: .*Remedy: /,
    );
    expect(one.status).to.equal(2);
    const since = await run(["reconcile", "--since", "24h"], awayB);
    expect(since.stdout).to.match(
      /^local-31337: database and chain agree on 1 payments .*\nlocal-31338: could not be /,
    );
    expect(since.status).to.equal(2);
    // The contract of another deployment: the chain after it is checked all the same.
    const foreign = {
      LOCAL_31337_TURNPIKE: chains.a.contracts.batchSettler,
      LOCAL_31337_BATCH_SETTLER: chains.a.contracts.turnpike,
    };
    const wrong = await run(["reconcile"], foreign);
    expect(wrong.stdout).to.match(/^local-31337: could not be checked: .*\nlocal-31338: database and chain agree\n$/);
    expect(wrong.status).to.equal(1);
  });

  it("HD34 a section whose name is misspelled is named by doctor, and by the start where something is missing", async () => {
    const extra = await run(["doctor"], { LOCAL_31383_CONFIRMATIONS: "12" });
    expect(extra.stdout).to.match(/^warn settings: LOCAL_31383_CONFIRMATIONS belongs to no chain of CHAINS.*Remedy: /m);
    expect(extra.status).to.equal(0);
    const { LOCAL_31338_RPC_URLS: url = "", ...rest } = chains.env();
    const missing = await program.run(["start"], { ...rest, LOCAL_31383_RPC_URLS: url });
    expect(missing.status).to.equal(1);
    expect(missing.stderr).to.match(
      /^ConfigError: local-31338: .*RPC_URLS.*begin with LOCAL_31338_; LOCAL_31383_RPC_URLS belongs to no chain of CHAINS/,
    );
  });
});
