/** Opens the agent that a command works with: its wallet, policy, ledger and connections, from settings alone. */
import { join } from "node:path";
import { type Agent, type AgentOptions, type AgentPolicy, createAgent, memoryLedger, walletFromKey } from "../agent";
import { fileLedger, fileReceipts } from "../agent/file-ledger";
import { type Hex, isPrivateKey, randomBytes, requireNetwork, toHex, UINT256_MAX } from "../protocol";
import type { CommandContext, FlagSpec } from "./command";
import { UsageError } from "./command-errors";
import { homeFolder, listVariable, secretVariable, variable } from "./environment";
import type { CliIo } from "./io";
import { readMoney } from "./money";
import { readPolicyFile } from "./policy-file";

/** The flags that limit what a command may spend. */
export const BUDGET_FLAGS = {
  max: {
    value: "AMOUNT",
    about: 'the most that this command may spend: "0.05" in tokens, or "50000units"; required without a policy file',
  },
  policy: { value: "FILE", about: "the policy file; default policy.json in TURNPIKE_HOME, where it exists" },
} as const satisfies Record<string, FlagSpec>;

/** What a command may spend. */
export interface Budget {
  readonly policy: AgentPolicy;
  /** base units; undefined: the policy alone decides */
  readonly max: bigint | undefined;
}

/** @throws UsageError when there is neither `--max` nor a policy file */
export async function requireBudget(context: CommandContext): Promise<Budget> {
  const budget = await readBudget(context);
  if (budget) return budget;
  throw new UsageError(
    "Nothing limits what this command may spend.",
    "Give --max AMOUNT, such as --max 0.05, or a policy file with perPayment and perDay.",
  );
}

/** Returns the limits that `--max` and the policy file set together; undefined when there are none. */
export async function readBudget({ args, io }: CommandContext): Promise<Budget | undefined> {
  const maxText = args.value("max");
  const max = maxText === undefined ? undefined : readMoney(maxText, "max");
  const inFile = await readPolicyFile(io, args.value("policy"));
  if (max === undefined) return inFile && { policy: inFile, max };
  // With `--max` alone each command is limited, and nothing limits a day.
  const base = inFile ?? { perPayment: max, perDay: UINT256_MAX };
  const perSubscription = least(BigInt(base.perSubscription ?? base.perDay), max);
  const perFirstCharge = least(BigInt(base.perFirstCharge ?? max), max);
  return {
    policy: { ...base, perPayment: least(BigInt(base.perPayment), max), perSubscription, perFirstCharge },
    max,
  };
}

/** Returns the policy of a command that pays nothing: the policy file's, where there is one. */
export async function policyWithoutPayment(context: CommandContext): Promise<AgentPolicy> {
  return (await readBudget(context))?.policy ?? { perPayment: 1n, perDay: 1n };
}

const least = (a: bigint, b: bigint): bigint => (a < b ? a : b);

/** Returns where the ledger of this user's commands is. */
export function ledgerFile(io: CliIo): string {
  return join(homeFolder(io), "ledger");
}

const WALLET_KEY = {
  variable: "TURNPIKE_WALLET_KEY",
  what: "private key",
  pattern: { test: isPrivateKey },
  form: "0x and 64 hex digits, not all zeros",
} as const;

/** Returns the private key of the wallet that pays. @throws UsageError when none is named */
export async function requireWalletKey({ io, output }: CommandContext): Promise<Hex> {
  const key = await secretVariable(io, output, WALLET_KEY);
  if (key !== undefined) return key as Hex;
  throw new UsageError(
    "TURNPIKE_WALLET_KEY is not set, and this command needs the wallet that pays.",
    "Write the private key to a file that only you can read, and set TURNPIKE_WALLET_KEY=file:PATH.",
  );
}

/**
 * Runs `work` with an agent that pays from the user's wallet and keeps its payments in the locked ledger. Closes it
 * afterwards, and when the user interrupts the program.
 * @throws UsageError when no wallet is named
 */
export async function withAgent<T>(
  context: CommandContext,
  policy: AgentPolicy,
  work: (agent: Agent) => Promise<T>,
): Promise<T> {
  const { io } = context;
  const key = await requireWalletKey(context);
  const agent = createAgent({
    ...connectionsOf(io, policy),
    wallet: walletFromKey(key),
    ledger: fileLedger(ledgerFile(io)),
    receipts: fileReceipts(join(homeFolder(io), "receipts")),
  });
  return closing(io, agent, work);
}

/** Runs `work` with an agent that has no wallet and no ledger: it can only ask for prices. */
export async function withPriceReader<T>(
  { io }: CommandContext,
  policy: AgentPolicy,
  work: (agent: Agent) => Promise<T>,
): Promise<T> {
  const wallet = walletFromKey(toHex(randomBytes(32)));
  return closing(io, createAgent({ ...connectionsOf(io, policy), wallet, ledger: memoryLedger() }), work);
}

async function closing<T>({ signal }: CliIo, agent: Agent, work: (agent: Agent) => Promise<T>): Promise<T> {
  const close = () => void agent.close();
  signal.addEventListener("abort", close, { once: true });
  try {
    return await work(agent);
  } finally {
    signal.removeEventListener("abort", close);
    await agent.close();
  }
}

/** Returns what the environment says of networks, tokens and peers. The policy file's own lists win. */
function connectionsOf(io: CliIo, policy: AgentPolicy): Omit<AgentOptions, "wallet" | "ledger"> {
  const networkName = variable(io, "TURNPIKE_NETWORK");
  const chainId = networkName === undefined ? undefined : requireNetwork(networkName).chainId;
  const rpcUrl = variable(io, "TURNPIKE_RPC_URL")?.split(",")[0]?.trim();
  const turnpike = variable(io, "TURNPIKE_ADDRESS");
  if (chainId === undefined && (rpcUrl !== undefined || turnpike !== undefined)) {
    throw new UsageError(
      `${rpcUrl === undefined ? "TURNPIKE_ADDRESS" : "TURNPIKE_RPC_URL"} is set, and TURNPIKE_NETWORK is not.`,
      "Set TURNPIKE_NETWORK to the network that it is on, such as base-mainnet.",
    );
  }
  const tokens = listVariable(io, "TURNPIKE_TOKEN");
  return {
    policy: {
      ...policy,
      ...(policy.tokens === undefined && tokens.length > 0 && { tokens }),
      ...(policy.networks === undefined && networkName !== undefined && { networks: [networkName] }),
    },
    facilitators: listVariable(io, "TURNPIKE_FACILITATOR_URL"),
    fetch: io.fetch,
    sleep: (ms, signal) => io.sleep(ms, signal),
    ...(chainId !== undefined && rpcUrl !== undefined && { rpc: { [chainId]: rpcUrl } }),
    ...(chainId !== undefined && turnpike !== undefined && { deployments: [{ chainId, turnpike: turnpike as Hex }] }),
  };
}
