/**
 * Follows each quickstart from an empty folder, command by command. Different here: the package comes from `npm pack` and
 * is linked rather than downloaded, the sandbox is this process's, and its chain is the test network.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { Wallet } from "ethers";
import { writeState } from "../../scripts/sandbox/state";
import { type FollowOptions, follow } from "../package/support/follow";
import { emptyProject, type Project } from "../package/support/packed";
import { freePort } from "../support/chain";
import { startSandbox, UNIT, type World } from "../support/sandbox";

const ROOT = path.resolve(__dirname, "../..");

/** What a clone has; its own folder is that of the keys. */
const OWN = [".sandbox", ".secrets", ".git", ".turnpike"];

describe("the quickstarts", function () {
  this.timeout(600_000);
  let world: World;
  let project: Project;
  let clone = "";

  before(async () => {
    // One after the other: the build would keep the sandbox's chain from answering.
    project = await emptyProject();
    world = await startSandbox();
    clone = mkdtempSync(path.join(tmpdir(), "turnpike-clone-"));
    for (const name of readdirSync(ROOT).filter((each) => !OWN.includes(each)))
      symlinkSync(path.join(ROOT, name), path.join(clone, name));
    mkdirSync(path.join(project.folder, ".sandbox"));
    await writeState(world, path.join(project.folder, ".sandbox"));
  });
  after(async () => {
    await world?.stop();
    await project?.remove();
    if (clone) rmSync(clone, { recursive: true, force: true });
  });

  const { HARDHAT_NETWORK: _, ...environment } = process.env;
  const run = (page: string, more: Pick<FollowOptions, "instead"> & Partial<FollowOptions>): Promise<string> =>
    follow(`docs/quickstart/${page}.md`, {
      cwd: project.folder,
      env: { ...environment, PROJECT: project.folder, TURNPIKE_DEPLOYMENTS: path.join(clone, ".secrets") },
      ...more,
    });

  it("get paid, in the sandbox and on a test network", async () => {
    const { chain, contracts } = world;
    const port = String(await freePort());
    const facilitatorPort = String(await freePort());
    const keyIn = (name: string) => new Wallet(readFileSync(path.join(clone, ".secrets", name), "utf8").trim());
    async function fund(): Promise<void> {
      for (const name of ["deployer", "relayer"])
        await chain.provider.send("hardhat_setBalance", [keyIn(name).address, "0x470de4df820000"]);
      await contracts.mint(keyIn("buyer").address, 5n * UNIT);
    }
    const before = await contracts.balanceOf(sellerOf());
    const printed = await run("get-paid", {
      cwd: clone,
      instead: [
        [/^mkdir -p .* npm init -y$/gm, 'cd "$PROJECT"'],
        [/^(?:npm ci|npm install|npx turnpike sandbox) .*$/gm, ":"],
        [/^cd \.\.\/shop$/gm, 'cd "$PROJECT"'],
        ["https://sepolia.base.org", chain.rpcUrl],
        ["run scripts/deploy.ts --network baseSepolia", "run --no-compile scripts/deploy.ts --network localhost"],
        ["CHAIN_ID=84532", `CHAIN_ID=${contracts.chainId}`],
        ["0x036CbD53842c5426634e7929541eC2318f3dCF7e", contracts.token],
        ['"USDC","version":"2"', `"${contracts.tokenName}","version":"${contracts.tokenVersion}"`],
        [
          "TURNPIKE_NETWORK=base-sepolia",
          `TURNPIKE_NETWORK=${contracts.network}\nTURNPIKE_RPC_URL=${chain.rpcUrl}\nTURNPIKE_TOKEN_DECIMALS=6\nTURNPIKE_TOKEN_CURRENCY=USD`,
        ],
        ["8502", facilitatorPort],
        ["3000", port],
      ],
      async after(command) {
        if (command.includes("openssl rand")) await fund();
      },
    });
    expect(printed.match(/^200 \{"price":7\} 0x[0-9a-f]{64}$/gm), printed).to.have.length(2);
    expect(printed).to.not.match(/^fail/m);
    expect(await contracts.balanceOf(sellerOf())).to.equal(before + UNIT / 2n);
    expect(await contracts.balanceOf(keyIn("seller").address)).to.equal(UNIT / 2n);
  });

  const sellerOf = (): string => {
    const state = readFileSync(path.join(project.folder, ".sandbox/state.env"), "utf8");
    return /^TURNPIKE_PAY_TO=(.*)$/m.exec(state)?.[1] ?? "";
  };

  it("pay from an agent, once and by a subscription", async () => {
    const printed = await run("buyer", { instead: [] });
    expect(printed)
      .to.match(/^200 \{/m)
      .and.match(/^200 \{"title":"Daily report"/m);
  });

  it("sell a tool and pay for it", async () => {
    expect(await run("mcp", { instead: [[/^npm install .*$/gm, ":"]] })).to.match(/^BTC 97000 paid: 10000n$/m);
  });
});
