/**
 * An agent that works through a list of jobs on a day's budget: single purchases, and plans that it signs up for. It
 * stops when the budget is used. Run again, on this day or a later one, it goes on, and pays for nothing twice.
 *
 * Run it with AGENT_KEY, FACILITATOR_URL, CHAIN_ID, TURNPIKE, TOKEN, PER_DAY (base units), and with three paths: JOBS (a
 * JSON list of jobs), LEDGER (a file) and RESULTS (a folder).
 */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type Agent, type AgentOptions, createAgent, type Ledger, walletFromKey } from "turnpike/agent";
import { fileLedger } from "turnpike/agent/file-ledger";
import { formatAmount, isTurnpikeError } from "turnpike/protocol";
import type { ExampleAgentOptions } from "./agent";

export interface Job {
  /** names the purchase and its result: letters, digits, - and _; the same name is never paid twice */
  readonly name: string;
  readonly url: string;
  /** whether to sign up for the cheapest plan that the URL offers; otherwise the agent pays once */
  readonly plan?: boolean;
}

export interface BudgetAgentOptions extends ExampleAgentOptions, Pick<AgentOptions, "clock"> {
  /** base units, over any 24 hours */
  readonly perDay: bigint;
  /** what was paid for, across restarts */
  readonly ledger: Ledger;
}

export function budgetAgent({ key, facilitator, chainId, turnpike, token, ...more }: BudgetAgentOptions): Agent {
  const { perDay, ...options } = more;
  return createAgent({
    wallet: walletFromKey(key),
    policy: { perPayment: 1_000_000, perDay, tokens: [token] },
    facilitators: [facilitator],
    deployments: [{ chainId, turnpike }],
    ...options,
  });
}

export interface JobOutcome {
  readonly name: string;
  /** waiting: for the next day's budget; pending: the outcome of a payment is unknown, and the next run presents it */
  readonly state: "done" | "waiting" | "pending" | "failed";
  readonly reason?: string;
}

/**
 * Runs the jobs that have no result yet, in order, until one does not fit the day's budget. A result is a file of the
 * folder with the job's name.
 */
export async function runJobs(agent: Agent, jobs: readonly Job[], folder: string): Promise<JobOutcome[]> {
  mkdirSync(folder, { recursive: true });
  const outcomes: JobOutcome[] = [];
  let isSpent = false;
  for (const job of jobs) {
    const outcome: JobOutcome = isSpent ? { name: job.name, state: "waiting" } : await runJob(agent, job, folder);
    isSpent ||= outcome.state === "waiting";
    outcomes.push(outcome);
  }
  return outcomes;
}

async function runJob(agent: Agent, job: Job, folder: string): Promise<JobOutcome> {
  const { name } = job;
  if (!/^[\w-]{1,64}$/.test(name)) return { name, state: "failed", reason: "the name has other characters" };
  const file = join(folder, name);
  if (existsSync(file)) return { name, state: "done" };
  try {
    const response = await request(agent, job);
    if (!response.ok) return { name, state: "failed", reason: `HTTP ${response.status}` };
    writeFileSync(`${file}.part`, Buffer.from(await response.arrayBuffer()));
    renameSync(`${file}.part`, file);
    return { name, state: "done" };
  } catch (error) {
    if (!isTurnpikeError(error)) return { name, state: "failed", reason: String(error) };
    const { code, reason, message, details } = error;
    if (code === "PaymentPending") return { name, state: "pending", reason: message };
    // A job that fits no day's budget fails; others fit once earlier payments are a day old.
    const isBudget = code === "PolicyRefused" && reason === "per_day" && details.spent !== "0";
    return { name, state: isBudget ? "waiting" : "failed", reason: message };
  }
}

/** A run that was killed leaves a signed payment in the ledger: the same call presents it, and signs no other one. */
async function request(agent: Agent, { name, url, plan }: Job): Promise<Response> {
  if (!plan) return agent.pay(url, { idempotencyKey: name });
  // Returns the subscription that is there, and buys nothing, when an earlier run has signed up.
  await agent.subscribe({ url });
  return agent.fetch(url);
}

/** Returns what a person reads about a run: its jobs, and what the last 24 hours cost. */
export async function summary(agent: Agent, outcomes: readonly JobOutcome[]): Promise<string> {
  const { spent, perDay } = await agent.budget();
  const lines = outcomes.map(({ name, state, reason }) => `${state} ${name}${reason ? `: ${reason}` : ""}`);
  return [...lines, `spent ${formatAmount(spent)} of ${formatAmount(perDay)} in 24 hours`].join("\n");
}

async function runFromEnvironment(env: Readonly<Record<string, string | undefined>>): Promise<string> {
  const value = (name: string): string => {
    const found = env[name];
    if (!found) throw new Error(`set ${name}`);
    return found;
  };
  const agent = budgetAgent({
    key: value("AGENT_KEY") as `0x${string}`,
    facilitator: value("FACILITATOR_URL"),
    chainId: Number(value("CHAIN_ID")),
    turnpike: value("TURNPIKE") as `0x${string}`,
    token: value("TOKEN") as `0x${string}`,
    perDay: BigInt(value("PER_DAY")),
    ledger: fileLedger(value("LEDGER")),
  });
  try {
    const jobs = JSON.parse(readFileSync(value("JOBS"), "utf8")) as Job[];
    return await summary(agent, await runJobs(agent, jobs, value("RESULTS")));
  } finally {
    await agent.close();
  }
}

if (require.main === module) {
  runFromEnvironment(process.env).then(console.log, (error: Error) => {
    console.error(error.message);
    process.exitCode = 1;
  });
}
