/** Plays subscriptions of several months in seconds: an agent acts, the clock runs, the dashboard shows it. */
import { Contract, JsonRpcProvider, Wallet } from "ethers";
import { type Agent, createAgent, walletFromKey } from "turnpike/agent";
import type { SubscriptionWire } from "turnpike/facilitator";
import { type Hex, isTurnpikeError, randomBytes, toHex } from "turnpike/protocol";
import { testKey } from "./chain";
import { moveClock } from "./move-clock";
import { oneShot } from "./one-shot";
import type { SandboxState } from "./state";

export type Say = (line: string) => void;

const HOUR_SEC = 3_600;

const DAY_SEC = 86_400;

const MONTH_SEC = 30 * DAY_SEC;

const NOBODY = "0x000000000000000000000000000000000000dEaD";

const TOKEN_ABI = [
  "function mint(address,uint256)",
  "function transfer(address,uint256)",
  "function balanceOf(address) view returns (uint256)",
];

export const SCENARIOS = {
  "happy-year": happyYear,
  "failing-card": failingCard,
  "exhausted-allowance": exhaustedAllowance,
  "closed-plan": closedPlan,
} as const satisfies Record<string, (stage: Stage) => Promise<void>>;

export type ScenarioName = keyof typeof SCENARIOS;

interface Stage {
  readonly state: SandboxState;
  readonly say: Say;
  readonly agent: Agent;
  readonly account: Wallet;
  readonly token: Contract;
  /** Waits until everything that became due was processed. */
  wait(seconds: number): Promise<void>;
}

export async function play(name: ScenarioName, state: SandboxState, say: Say): Promise<void> {
  const chain = new JsonRpcProvider(oneShot(state.rpcUrl), undefined, { batchMaxCount: 1, cacheTimeout: -1 });
  // Each run has its own account, so that a scenario can be played again.
  const key = toHex(randomBytes(32)) as Hex;
  const account = new Wallet(key, chain);
  const { rpcUrl, facilitatorUrl, network, chainId, turnpike, token: tokenAddress, providerApiKey: apiKey } = state;
  const agent = createAgent({
    wallet: walletFromKey(key),
    policy: { perPayment: 1_000_000, perDay: 100_000_000, perSubscription: 100_000_000, tokens: [tokenAddress] },
    facilitators: [facilitatorUrl],
    deployments: [{ chainId, turnpike }],
    rpc: rpcUrl,
  });
  const stage: Stage = {
    state,
    say,
    agent,
    account,
    token: new Contract(tokenAddress, TOKEN_ABI, chain),
    wait: (seconds) => moveClock({ facilitatorUrl, network, apiKey }, seconds),
  };
  try {
    await mint(stage, 1_000_000_000n);
    await SCENARIOS[name](stage);
  } finally {
    await agent.close();
    chain.destroy();
  }
}

async function happyYear({ state, say, agent, wait }: Stage): Promise<void> {
  const subscription = await agent.subscribe({ planId: state.plans.reader, origins: [state.providerUrl], periods: 13 });
  say("Subscribed to Reader: the first month is paid.");
  for (let month = 1; month <= 12; month++) {
    // An hour into the next month: a renewal is collected when it falls due, not before.
    const before = await standing(state, subscription.idHash);
    await wait(before.paidThrough + HOUR_SEC - before.chainTimeSec);
    const { status, paidThrough } = await standing(state, subscription.idHash);
    say(`Month ${month} over: ${status}, paid through ${isoDay(paidThrough)}.`);
  }
  say(`The report answers ${(await agent.fetch(`${state.providerUrl}/report`)).status}.`);
}

async function failingCard({ state, say, agent, account, token, wait }: Stage): Promise<void> {
  const subscription = await agent.subscribe({ planId: state.plans.reader, origins: [state.providerUrl] });
  const show = async (when: string): Promise<void> =>
    say(`${when}: ${(await standing(state, subscription.idHash)).status}.`);
  await show("Subscribed");
  await empty({ account, token });
  say("The account is empty now.");
  await wait(MONTH_SEC + HOUR_SEC);
  await show("An hour after the renewal was due, in its grace");
  await wait(3 * DAY_SEC);
  await show("Three days later, its grace over");
  await wait(MONTH_SEC);
  await show("A period later");
  await mint({ account, token }, 1_000_000_000n);
  await agent.resume(subscription.id);
  await show("Money is back and the subscriber resumed");
}

async function exhaustedAllowance({ state, say, agent, wait }: Stage): Promise<void> {
  const subscription = await agent.subscribe({
    planId: state.plans.small,
    maxOverage: 2_000_000,
    origins: [state.providerUrl],
  });
  const call = async (): Promise<number> => {
    const answer = await agent.fetch(`${state.providerUrl}/complete`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ words: 1_000 }),
    });
    await answer.arrayBuffer();
    return answer.status;
  };
  let calls = 0;
  while (calls < 20 && (await call()) === 200) calls++;
  say(`${calls} calls were served; the next one is answered 402: the cap of this cycle is reached.`);
  await agent.setMaxOverage(subscription.id, 4_000_000);
  say(`The cap is raised: ${await call()}.`);
  await wait(MONTH_SEC);
  say(`A month later the cap is reset: ${await call()}.`);
}

async function closedPlan({ state, say, agent }: Stage): Promise<void> {
  try {
    await agent.subscribe({ planId: state.plans.retired, origins: [state.providerUrl] });
  } catch (error) {
    if (!isTurnpikeError(error)) throw error;
    say(`The plan of last year is closed: ${error.code}.`);
  }
  const answer = await fetch(`${state.facilitatorUrl}/plans/${state.plans.retired}`);
  const { successor } = (await answer.json()) as { successor: Hex };
  await agent.subscribe({ planId: successor, origins: [state.providerUrl] });
  say(`Its successor is open: the report answers ${(await agent.fetch(`${state.providerUrl}/report`)).status}.`);
}

async function mint({ account, token }: Pick<Stage, "account" | "token">, amount: bigint): Promise<void> {
  const minter = new Wallet(testKey("visitor 1"), account.provider);
  await (await (token.connect(minter) as Contract).getFunction("mint")(account.address, amount)).wait();
}

async function empty({ account, token }: Pick<Stage, "account" | "token">): Promise<void> {
  const chain = account.provider as JsonRpcProvider;
  await chain.send("hardhat_setBalance", [account.address, "0xde0b6b3a7640000"]);
  const balance = await token.getFunction("balanceOf")(account.address);
  await (await (token.connect(account) as Contract).getFunction("transfer")(NOBODY, balance)).wait();
}

async function standing(
  { facilitatorUrl }: SandboxState,
  idHash: Hex,
): Promise<Pick<SubscriptionWire, "status" | "paidThrough" | "chainTimeSec">> {
  return (await (await fetch(`${facilitatorUrl}/subscriptions/${idHash}`)).json()) as SubscriptionWire;
}

const isoDay = (timeSec: number): string => new Date(timeSec * 1_000).toISOString().slice(0, 10);
