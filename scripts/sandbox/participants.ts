/** The example provider, the specialist and the agents of one chain, and what they are configured with. */
import path from "node:path";
import { Wallet } from "ethers";
import type { Agent } from "turnpike/agent";
import type { Address, Hex } from "turnpike/protocol";
import { exampleAgent } from "../../examples/agent";
import type { ExampleProviderOptions, RunningProvider, RunningServer } from "../../examples/provider";
import { startSpecialist } from "../../examples/specialist";
import { freePort, testKey } from "./chain";
import { type ChainDeployment, UNIT } from "./chain-deployment";
import { TEST_TOKEN } from "./contracts";
import type { ExampleProvider } from "./example-provider";
import type { LocalFacilitator } from "./facilitator";
import type { Restartable, StartedParts } from "./restartable";

/** What the participants of one chain share. */
export interface ParticipantsBase {
  readonly deployment: ChainDeployment;
  readonly facilitator: LocalFacilitator;
  /** a folder for what gates keep */
  readonly home: string;
  readonly pollMs: number;
}

export interface ParticipantsOptions {
  readonly exampleProvider: ExampleProvider;
  readonly ports?: { readonly provider: number; readonly specialist: number } | undefined;
  /** the API key that the provider's gates report with */
  readonly apiKey?: string | undefined;
  /** the other chain that the provider is paid on */
  readonly elsewhere?: ChainDeployment | undefined;
}

export interface Participants {
  readonly provider: Restartable & Pick<RunningProvider, "url" | "flush">;
  readonly specialist: RunningServer;
  readonly specialistAccount: Wallet;
  /** Creates an agent with tokens and without any gas; the same name is the same key. */
  agent(name: string, options?: TestAgentOptions): Promise<TestAgent>;
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

export async function startParticipants(
  base: ParticipantsBase,
  started: StartedParts,
  { exampleProvider, ports, apiKey, elsewhere }: ParticipantsOptions,
): Promise<Participants> {
  const providerOptions = {
    ...providerOptionsOf(base),
    port: await freePort(ports?.provider),
    ...(apiKey && { reports: { apiKey } }),
    ...(elsewhere && { elsewhere: targetOf(elsewhere, base.facilitator) }),
  };
  const server = await exampleProvider.start(providerOptions);
  const url = `http://127.0.0.1:${providerOptions.port}`;
  const provider = started.add({ ...server, url, flush: () => exampleProvider.flush() });
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
      claims: path.join(base.home, "specialist"),
    }),
  );
  return { provider, specialist, specialistAccount: buyer.wallet, agent };
}

/** What every gate of this chain is configured with. */
export function gateOptionsOf({ deployment: { chain, contracts }, facilitator, pollMs }: ParticipantsBase) {
  return {
    network: contracts.network,
    rpcUrl: chain.rpcUrl,
    turnpike: contracts.turnpike,
    token: { address: contracts.token, decimals: TEST_TOKEN.decimals },
    facilitator: { url: facilitator.url, signers: [facilitator.signer] },
    pollMs,
  };
}

/** Another chain as an entry of a route's `prices` names it. */
function targetOf(
  { chain, contracts, providerAccount }: ChainDeployment,
  { url, signer }: LocalFacilitator,
): NonNullable<ExampleProviderOptions["elsewhere"]> {
  return {
    network: contracts.network,
    token: contracts.token,
    payTo: providerAccount.address,
    facilitator: { url, signers: [signer] },
    rpcUrl: chain.rpcUrl,
  };
}

function providerOptionsOf(base: ParticipantsBase) {
  const { plans, providerAccount: account } = base.deployment;
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
function agentFactory(
  { deployment: { chain, contracts }, facilitator }: ParticipantsBase,
  started: StartedParts,
): Participants["agent"] {
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
