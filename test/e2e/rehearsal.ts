/** A deployment rehearsed on this machine, with the settings of each public network: from an empty key to a paid request. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { networkOfChain } from "turnpike/protocol";
import { deploy } from "../../scripts/deploy";
import { requireDeployer } from "../../scripts/deploy/create2";
import { DEPLOYMENTS, readRecord } from "../../scripts/deploy/record";
import { startChain } from "../support/chain";
import { startSandbox, UNIT, type World } from "../support/sandbox";

const CHAINS = [84_532, 8_453] as const;
const nameOf = (chainId: number): string => networkOfChain(chainId).name;

describe("end to end > rehearsal of a deployment", function () {
  this.timeout(240_000);
  let directory: string;
  beforeEach(() => {
    directory = mkdtempSync(path.join(tmpdir(), "turnpike-rehearsal-"));
  });
  afterEach(() => rmSync(directory, { recursive: true, force: true }));

  for (const chainId of CHAINS) {
    const name = nameOf(chainId);

    it(`${name}: an empty key deploys nothing, a funded one everything, and no release lists it`, async () => {
      const chain = await startChain({ chainId });
      try {
        const signer = await chain.wallet("deployer");
        const fund = (wei: bigint) =>
          chain.provider.send("hardhat_setBalance", [signer.address, `0x${wei.toString(16)}`]);
        const attempt = () => deploy({ signer, isDevnet: true, directory }).catch((error: Error) => error.message);
        // Public chains have the CREATE2 deployer.
        await requireDeployer(signer, true);
        await fund(0n);
        expect(await attempt())
          .to.contain(`has 0.0 ether on chain ${chainId}`)
          .and.contain("send it ether for gas");
        expect(readRecord(chainId, directory)).to.equal(undefined);
        const published = await deploy({ signer, isDevnet: true }).catch((error: Error) => error.message);
        expect(published).to.contain(`with the id of ${name}`);
        await fund(10n ** 18n);
        const record = await deploy({ signer, isDevnet: true, directory });
        expect(record).to.include({ network: name, chainId });
        expect(readRecord(chainId, directory)).to.deep.equal(record);
        expect(existsSync(path.join(DEPLOYMENTS, `${name}.json`))).to.equal(false);
      } finally {
        await chain.stop();
      }
    });
  }

  it("one Facilitator and a gate on each network serve its first paid request", async () => {
    const [chainId, secondChainId] = CHAINS;
    const world = await startSandbox({ chainId, secondChainId });
    try {
      for (const { contracts, provider, providerAccount, agent: create } of [world, world.second as World]) {
        const { agent } = await create(`first on ${contracts.network}`);
        const before = await contracts.balanceOf(providerAccount.address);
        const response = await agent.pay(`${provider.url}/quote?symbol=FIRST`);
        expect(response.status).to.equal(200);
        expect((await contracts.balanceOf(providerAccount.address)) - before, contracts.network).to.equal(UNIT / 2n);
      }
      expect([world.contracts.network, world.second?.contracts.network]).to.deep.equal(CHAINS.map(nameOf));
    } finally {
      await world.stop();
    }
  });
});
