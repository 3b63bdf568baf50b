/**
 * Defines the project's Hardhat tasks. The work is in scripts that are loaded only when a task runs. They are loaded by
 * require, because import() bypasses ts-node.
 */
import { extendEnvironment, task, types } from "hardhat/config";
import { HardhatPluginError } from "hardhat/plugins";
import type { ActionType, HardhatRuntimeEnvironment, TaskArguments } from "hardhat/types";
import type { Address, Hex } from "turnpike/protocol";
import { missingFor } from "./networks";

const PLUGIN = "turnpike";

extendEnvironment((hre) => {
  const missing = missingFor(hre.network.name, process.env);
  if (missing) throw new HardhatPluginError(PLUGIN, missing);
});

task("plan:create", "Creates a plan; the sending account is its provider")
  .addParam("token", "address of the payment token")
  .addParam("amount", "price of one period in base units, e.g. 10000000 for 10 units of 6 decimals")
  .addOptionalParam("interval", "length of one period in seconds", 2_592_000, types.int)
  .addOptionalParam("months", "length of one period in calendar months, instead of --interval", undefined, types.int)
  .addOptionalParam("grace", "seconds of service after a period while its renewal is awaited", undefined, types.int)
  .addOptionalParam("payTo", "address that receives every charge; the provider unless given")
  .addOptionalParam("name", "shown to subscribers")
  .addOptionalParam("metadata", "JSON text instead of a name", undefined, types.string)
  .addOptionalParam("salt", "32 bytes; distinguishes two plans of equal terms")
  .addOptionalParam("turnpike", "the contract, unless deployments/ knows it")
  .setAction(
    clearly(async (given, hre) => {
      const { defaultGraceSec, NOMINAL_MONTH_SEC } = require("turnpike/protocol") as typeof import("turnpike/protocol");
      const { createPlan } = require("turnpike/chain") as typeof import("turnpike/chain");
      requireChecksum({ token: given.token, payTo: given.payTo });
      const { months, interval } = given;
      const length = months === undefined ? { intervalSec: Number(interval) } : { months: Number(months) };
      const shortestSec = months === undefined ? interval : months * NOMINAL_MONTH_SEC;
      const graceSec: number = given.grace ?? defaultGraceSec(shortestSec);
      if (graceSec === 0) print("Warning: with a grace of 0 a subscriber is cut off until its renewal is mined.");
      const { planId, receipt } = await createPlan(await account(hre), await turnpikeOf(hre, given.turnpike), {
        token: given.token,
        amount: wholeUnits(given.amount),
        ...length,
        graceSec,
        payTo: given.payTo,
        salt: given.salt,
        metadata: given.metadata ?? (given.name ? JSON.stringify({ name: given.name }) : "{}"),
      });
      print(receipt ? `Created in ${receipt.hash}` : "The same plan exists already.");
      process.stdout.write(`${planId}\n`);
    }),
  );

task("plan:deprecate", "Closes a plan to new subscriptions; existing ones go on")
  .addParam("plan", "the plan's id")
  .addOptionalParam("successor", "the plan to take instead")
  .addOptionalParam("turnpike", "the contract, unless deployments/ knows it")
  .setAction(
    clearly(async ({ plan, successor, turnpike }, hre) => {
      requireId({ plan, successor });
      const { deprecatePlan } = require("turnpike/chain") as typeof import("turnpike/chain");
      const terms = successor ? { planId: plan as Hex, successor: successor as Hex } : { planId: plan as Hex };
      const receipt = await deprecatePlan(await account(hre), await turnpikeOf(hre, turnpike), terms);
      process.stdout.write(`${receipt.hash}\n`);
    }),
  );

task("plan:stop", "Stops a plan for good: nothing is charged any more, and subscriptions end with their paid period")
  .addParam("plan", "the plan's id")
  .addOptionalParam("turnpike", "the contract, unless deployments/ knows it")
  .setAction(
    clearly(async ({ plan, turnpike }, hre) => {
      requireId({ plan });
      const { stopPlan } = require("turnpike/chain") as typeof import("turnpike/chain");
      const receipt = await stopPlan(await account(hre), await turnpikeOf(hre, turnpike), plan as Hex);
      process.stdout.write(`${receipt.hash}\n`);
    }),
  );

task(
  "plan:operator",
  "Sets what an account may do on a plan, for instance a Facilitator's relayer: debit, unless named",
)
  .addParam("plan", "the plan's id")
  .addParam("operator", "the account")
  .addOptionalParam("rights", "debit, voucher, receipt, separated by commas", "debit")
  .addFlag("revoke", "takes all rights away")
  .addOptionalParam("turnpike", "the contract, unless deployments/ knows it")
  .setAction(
    clearly(async ({ plan, operator, rights, revoke, turnpike }, hre) => {
      requireId({ plan });
      const { RIGHTS, setOperator } = require("turnpike/chain") as typeof import("turnpike/chain");
      requireChecksum({ operator });
      const bitOf = (name: string): number => {
        if (Object.hasOwn(RIGHTS, name)) return RIGHTS[name as keyof typeof RIGHTS];
        throw new HardhatPluginError(PLUGIN, `rights: "${name}" is none of ${Object.keys(RIGHTS).join(", ")}.`);
      };
      const bits = [...new Set(String(rights).split(","))].reduce((sum, name) => sum + bitOf(name.trim()), 0);
      const wanted = { planId: plan as Hex, account: operator as Address, rights: revoke ? 0 : bits };
      const receipt = await setOperator(await account(hre), await turnpikeOf(hre, turnpike), wanted);
      process.stdout.write(`${receipt.hash}\n`);
    }),
  );

async function account(hre: HardhatRuntimeEnvironment) {
  const [signer] = await hre.ethers.getSigners();
  if (!signer) throw new HardhatPluginError(PLUGIN, "There is no key to send with: set TURNPIKE_DEPLOYER_KEY.");
  return signer;
}

async function turnpikeOf(hre: HardhatRuntimeEnvironment, given: string | undefined): Promise<Address> {
  requireChecksum({ turnpike: given });
  if (given) return given as Address;
  const { readRecord } = require("./deploy/record") as typeof import("./deploy/record");
  const chainId = Number((await hre.ethers.provider.getNetwork()).chainId);
  const record = readRecord(chainId, process.env.TURNPIKE_DEPLOYMENTS || undefined);
  if (record) return record.turnpike.address as Address;
  throw new HardhatPluginError(PLUGIN, `No deployment on chain ${chainId} is recorded: deploy, or give --turnpike.`);
}

/** Runs a task's action. An error of the project is printed as one message, without a stack trace. */
function clearly(action: ActionType<TaskArguments>): ActionType<TaskArguments> {
  return async (given, hre, runSuper) => {
    try {
      await action(given, hre, runSuper);
    } catch (error) {
      const { isTurnpikeError } = require("turnpike/protocol") as typeof import("turnpike/protocol");
      if (isTurnpikeError(error))
        throw new HardhatPluginError(PLUGIN, `${error.message.replace(/\.$/, "")}. ${error.remedy}`);
      throw error;
    }
  };
}

function wholeUnits(text: string): bigint {
  if (/^\d+$/.test(text)) return BigInt(text);
  throw new HardhatPluginError(PLUGIN, `--amount is "${text}": write whole base units, 10000000 for 10 of 6 decimals.`);
}

function requireId(given: Readonly<Record<string, string | undefined>>): void {
  const { isHash32 } = require("turnpike/protocol") as typeof import("turnpike/protocol");
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || isHash32(value)) continue;
    throw new HardhatPluginError(PLUGIN, `--${name} is "${value}": a plan's id is 0x and 64 hex digits.`);
  }
}

/** Refuses an address that was mistyped: what it names is written to the chain for good. */
function requireChecksum(given: Readonly<Record<string, string | undefined>>): void {
  const { configuredAddress } = require("turnpike/protocol") as typeof import("turnpike/protocol");
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    try {
      configuredAddress(value, `--${name}`, `--${name} is "${value}": an address is 0x and 40 hex digits`);
    } catch (error) {
      throw new HardhatPluginError(PLUGIN, (error as Error).message);
    }
  }
}

/** Notes go to stderr, so that stdout contains only the result. */
function print(line: string): void {
  process.stderr.write(`${line}\n`);
}
