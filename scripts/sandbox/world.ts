/**
 * Starts everything that the sandbox and the end-to-end tests need, and stops it in reverse order. These parts are a
 * chain, the contracts, a test token, plans, the Facilitator on an empty embedded database, the examples and their
 * agents.
 */
import { mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { Contract, Wallet } from "ethers";
import type { Agent } from "turnpike/agent";
import { createPlan, deprecatePlan, lensInterface, turnpikeInterface } from "turnpike/chain";
import { type Address, defaultGraceSec, type Hex, lensAddressOf, Unavailable } from "turnpike/protocol";
import { exampleAgent } from "../../examples/agent";
import type { RunningProvider, RunningServer } from "../../examples/provider";
import { startSpecialist } from "../../examples/specialist";
import { type Chain, type ChainOptions, type FundedWallet, freePort, startChain, testKey } from "./chain";
import { deployAll, type LocalContracts } from "./contracts";
import { ExampleProvider } from "./example-provider";
import { type LocalFacilitator, localFacilitator } from "./facilitator";
import { type Inbox, providerKey, startInbox } from "./inbox";
import { placePermit2 } from "./permit2";
import { type Restartable, StartedParts } from "./restartable";
import { createSandboxControls, type SandboxFacts } from "./test-clock";

export const UNIT = 1_000_000n;
// one whole token unit, 6 decimals
export const DAY_SEC = 86_400;

export const INTERVAL_SEC = 30 * DAY_SEC;

const BLOCK_MS = 500;

/** Waiting for blocks gains nothing while the contracts are deployed one after another. */
const SETUP_BLOCK_MS = 25;

export interface WorldOptions extends Pick<ChainOptions, "isSpared"> {
  /** default 31337 */
  readonly chainId?: number;
  readonly blockMs?: number;
  /** folder of everything that this world writes; removed when it stops */
  readonly folder: string;
  /** the preferred ports; default any free ones */
  readonly ports?: {
    readonly facilitator: number;
    readonly provider: number;
    readonly specialist: number;
    readonly inbox: number;
    readonly chain: number;
  };
  /** called with each part before it starts */
  readonly onStart?: (part: string) => void;
  /** adds an API key of the provider, a receiver of its webhooks, and both in the dashboard next to the clock */
  readonly withInbox?: boolean;
}

export type PlanName = "reader" | "small" | "large" | "retired";

export interface World {
  readonly chain: Chain;
  readonly contracts: LocalContracts;
  readonly facilitator: LocalFacilitator;
  readonly provider: Restartable & Pick<RunningProvider, "url" | "flush">;
  readonly specialist: RunningServer;
  readonly plans: Readonly<Record<PlanName, Hex>>;
  /** what every gate of this world is configured with */
  readonly gateOptions: ReturnType<typeof gateOptionsOf>;
  /** a folder for what gates keep; removed when the world stops */
  readonly home: string;
  readonly providerAccount: FundedWallet;
  /** worthless anywhere but here */
  readonly providerKey?: string;
  readonly inbox?: Inbox;
  readonly specialistAccount: Wallet;
  /** Turnpike, with read access as anyone has it. */
  readonly turnpike: Contract;
  /** what `turnpike` stores, as structs */
  readonly lens: Contract;
  /** Creates an agent with tokens and without any gas; the same name is the same key. */
  agent(name: string, options?: TestAgentOptions): Promise<TestAgent>;
  stop(): Promise<void>;
}

export interface TestAgentOptions {
  readonly tokens?: bigint;
  readonly fetch?: typeof fetch;
  /** reads the chain itself, as an audit does */
  readonly hasNode?: boolean;
}

export interface TestAgent {
  readonly agent: Agent;
  readonly wallet: Wallet;
  readonly address: Address;
}

export async function startWorld({
  chainId,
  blockMs = BLOCK_MS,
  folder,
  ports,
  isSpared = false,
  withInbox = false,
  onStart = () => undefined,
}: WorldOptions): Promise<World> {
  const started = new StartedParts();
  try {
    const home = mkdtempSync(path.join(folder, "turnpike-run-"));
    started.onStop(async () => rmSync(home, { recursive: true, force: true }));
    onStart("a chain");
    const chain = started.add(
      await startChain({ ...(chainId ? { chainId } : {}), blockMs, isSpared, port: ports?.chain }),
    );
    onStart("the contracts, a test token and plans");
    await chain.mineEvery(Math.min(blockMs, SETUP_BLOCK_MS));
    const contracts = await deployAll(chain, path.join(home, "deployments"));
    await placePermit2(chain);
    const providerAccount = await chain.wallet("provider");
    const plans = await createPlans(providerAccount, contracts);
    await chain.mineEvery(blockMs);

    onStart("the Facilitator with its dashboard");
    const exampleProvider = new ExampleProvider();
    const flush = (): Promise<void> => exampleProvider.flush();
    let facts: SandboxFacts | undefined;
    const sandbox = createSandboxControls(() => {
      if (!facts) throw new Unavailable("the sandbox is still starting");
      return facts;
    });
    const facilitator = started.add(
      await localFacilitator({
        chain,
        contracts,
        blockMs,
        home,
        port: ports?.facilitator,
        operator: providerAccount.address,
        sandbox: withInbox ? sandbox : undefined,
      }),
    );
    const key = withInbox ? await providerKey(facilitator.url, providerAccount) : undefined;
    const inbox = key && (await startInbox(facilitator.url, key, await freePort(ports?.inbox)));
    if (inbox) started.add(inbox);
    if (key)
      facts = {
        rpcUrl: chain.rpcUrl,
        facilitatorUrl: facilitator.url,
        apiKey: key,
        inboxUrl: inbox && `${inbox.url}/`,
        beforeStep: flush,
      };

    onStart("the provider and the agents");
    const base = { chain, contracts, facilitator, home, pollMs: Math.min(blockMs, 250) };
    const providerOptions = {
      ...providerOptionsOf(base, providerAccount, plans),
      port: await freePort(ports?.provider),
      ...(key && { reports: { apiKey: key } }),
    };
    const server = await exampleProvider.start(providerOptions);
    const provider = { ...server, url: `http://127.0.0.1:${providerOptions.port}`, flush };
    started.add(provider);

    const agent = agentFactory(base, started);
    const buyer = await agent("specialist");
    const specialist = started.add(
      await startSpecialist({
        ...gateOptionsOf(base),
        port: await freePort(ports?.specialist),
        agent: buyer.agent,
        upstream: provider.url,
        payTo: buyer.address,
        secret: testKey("specialist's gate"),
        claims: path.join(home, "specialist"),
      }),
    );

    return {
      chain,
      contracts,
      facilitator,
      provider,
      specialist,
      plans,
      gateOptions: gateOptionsOf(base),
      home,
      providerAccount,
      ...(key && { providerKey: key }),
      ...(inbox && { inbox }),
      specialistAccount: buyer.wallet,
      turnpike: new Contract(contracts.turnpike, turnpikeInterface, chain.provider),
      lens: new Contract(lensAddressOf(contracts.turnpike), lensInterface, chain.provider),
      agent,
      stop: () => started.stop(),
    };
  } catch (error) {
    await started.stop();
    throw error;
  }
}

/** What providers and agents are configured with. */
interface WorldBase {
  readonly chain: Chain;
  readonly contracts: LocalContracts;
  readonly facilitator: LocalFacilitator;
  readonly home: string;
  readonly pollMs: number;
}

function gateOptionsOf({ chain, contracts, facilitator, pollMs }: WorldBase) {
  return {
    network: contracts.network,
    rpcUrl: chain.rpcUrl,
    turnpike: contracts.turnpike,
    token: contracts.token,
    facilitator: { url: facilitator.url, signers: [facilitator.signer] },
    pollMs,
  };
}

function providerOptionsOf(base: WorldBase, account: FundedWallet, plans: World["plans"]) {
  return {
    ...gateOptionsOf(base),
    plans: [plans.reader, plans.small, plans.large],
    payTo: account.address,
    operatorKey: account.privateKey as Hex,
    secret: testKey("provider's gate"),
    claims: path.join(base.home, "provider"),
    meterFolder: path.join(base.home, "provider"),
  } as const;
}

/** Returns the function that creates agents. Each agent is closed with the world. */
function agentFactory({ chain, contracts, facilitator }: WorldBase, started: StartedParts): World["agent"] {
  // On a real chain's id, an agent does not trust a Facilitator that reports a time jump: it asks its own node.
  const isReal = !contracts.network.startsWith("local-");
  return async (name, { tokens = 1_000n * UNIT, fetch, hasNode = isReal } = {}) => {
    const wallet = new Wallet(testKey(name));
    if (tokens > 0n) await contracts.mint(wallet.address, tokens);
    const options = {
      key: wallet.privateKey as Hex,
      facilitator: facilitator.url,
      chainId: contracts.chainId,
      turnpike: contracts.turnpike,
      token: contracts.token,
      ...(hasNode && { rpc: chain.rpcUrl }),
    };
    const agent = exampleAgent(fetch ? { ...options, fetch } : options);
    started.onStop(() => agent.close());
    return { agent, wallet, address: wallet.address as Address };
  };
}

/** Monthly plans of the example provider: one for reading, two sizes of a metered one, and one that is closed. */
async function createPlans(account: FundedWallet, { turnpike, token }: LocalContracts): Promise<World["plans"]> {
  const create = async (name: string, units: bigint): Promise<Hex> => {
    const terms = { amount: units * UNIT, intervalSec: INTERVAL_SEC, graceSec: defaultGraceSec(INTERVAL_SEC) };
    const { planId } = await createPlan(account, turnpike, { token, ...terms, metadata: JSON.stringify({ name }) });
    return planId;
  };
  const plans = {
    reader: await create("Reader", 10n),
    small: await create("Small", 5n),
    large: await create("Large", 20n),
    retired: await create("Reader of last year", 8n),
  };
  await deprecatePlan(account, turnpike, { planId: plans.retired, successor: plans.reader });
  return plans;
}
