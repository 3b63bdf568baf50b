/**
 * Keeps the time of the in-process chain still: a block has the time of the one before it, unless a test sets another.
 * Hardhat's own clock goes on with the machine's, and a slow machine then passes the second that a test is about.
 */
import { network } from "hardhat";
import type { RequestArguments } from "hardhat/types";

const MINING = new Set(["eth_sendTransaction", "eth_sendRawTransaction", "evm_mine", "hardhat_mine"]);

const REWINDING = new Set(["evm_revert", "hardhat_reset"]);

const { provider } = network;
const request = provider.request.bind(provider);

/** What a test has set last; it is past once a block has it. */
let wanted = 0;

async function still(args: RequestArguments): Promise<unknown> {
  const [first] = (args.params ?? []) as readonly unknown[];
  if (MINING.has(args.method)) await holdTime();
  const result = await request(args);
  if (args.method === "evm_setNextBlockTimestamp") wanted = Number(first);
  else if (REWINDING.has(args.method)) wanted = 0;
  return result;
}

async function holdTime(): Promise<void> {
  const latest = (await request({ method: "eth_getBlockByNumber", params: ["latest", false] })) as {
    timestamp: string;
  };
  const timestamp = Math.max(wanted, Number(latest.timestamp));
  await request({ method: "evm_setNextBlockTimestamp", params: [`0x${timestamp.toString(16)}`] });
}

provider.request = still;
provider.send = (method, params) => still({ method, params });
