/** A provider debits more than its usage receipts say. The subscriber's audit names it, and a third party agrees. */
import { execFile } from "node:child_process";
import path from "node:path";
import { Contract } from "ethers";
import type { Agent } from "turnpike/agent";
import { writeAudit } from "turnpike/agent/file-ledger";
import { turnpikeInterface } from "turnpike/chain";
import type { Hex } from "turnpike/protocol";
import type { Cast } from "../cast";
import type { FundedWallet } from "../chain";
import { mustBe } from "../narrate";
import type { World } from "../world";

const ROOT = path.resolve(__dirname, "../../..");

/** Base units. */
const OVERCHARGE = 7n;

export interface MeteredBill {
  /** has one subscription, and the receipts of its use */
  readonly agent: Agent;
  readonly provider: FundedWallet;
  /** base units, debited in this cycle */
  readonly spent: bigint;
}

export async function walkAudit({ world, narrator }: Cast, { agent, provider, spent }: MeteredBill): Promise<void> {
  await narrator.step(
    "An overcharge that an audit names",
    `The stream carried a signed receipt of each charge, and Mia's audit is clean. Then the provider debits ${OVERCHARGE} base units more than its receipts say.`,
    async () => {
      const file = path.join(world.home, "bill.json");
      const audited = async () => {
        const audit = await agent.audit();
        await writeAudit(file, audit);
        return audit.subscriptions.flatMap(({ findings }) => findings);
      };
      mustBe((await audited()).length, 0, "the number of findings in an honest bill");
      mustBe((await verified(world, file)).code, 0, "the exit code for an honest bill");

      const [subscription] = await agent.list();
      if (!subscription) throw new Error("The agent does not know its subscription.");
      await agent.setMaxOverage(subscription, spent + OVERCHARGE);
      await overcharge(world, provider, subscription.idHash);

      const [finding, ...others] = await audited();
      mustBe(others.length, 0, "the number of other findings");
      mustBe(finding?.kind === "excess" && finding.amount, OVERCHARGE, "the excess");
      const { code, output } = await verified(world, file);
      narrator.say(`   npx turnpike audit bill.json\n${output}`);
      mustBe(code, 1, "the exit code for an overcharge");
      mustBe(output.includes(`excess: ${OVERCHARGE} base units`), true, "that the third party reads the excess");
    },
  );
}

async function overcharge({ contracts, lens }: World, provider: FundedWallet, idHash: Hex): Promise<void> {
  const { debits } = await lens.getFunction("getAllowance")(idHash);
  const turnpike = new Contract(contracts.turnpike, turnpikeInterface, provider);
  await (await turnpike.getFunction("debit")(idHash, OVERCHARGE, debits)).wait();
}

/** Runs the command line as a third party does: it has the file and the chain alone. */
async function verified({ chain, contracts }: World, file: string): Promise<{ code: number; output: string }> {
  const program = ["-r", "./tools/typescript.cjs", "sdk/src/cli.ts", "audit", file];
  const flags = ["--rpc", chain.rpcUrl, "--contract", contracts.turnpike];
  return new Promise((resolve) => {
    execFile(process.execPath, [...program, ...flags], { cwd: ROOT }, (error, stdout, stderr) => {
      const output = `${stdout}${stderr}`.replace(/^/gm, "   ").trimEnd();
      resolve({ code: error ? Number(error.code) : 0, output });
    });
  });
}
