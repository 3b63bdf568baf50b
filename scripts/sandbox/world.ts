/**
 * Starts everything that the sandbox and the end-to-end tests need, and stops it in reverse order. These parts are a
 * chain or two, the contracts, a test token, plans, the Facilitator on an empty database, the examples and their agents.
 */
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import path from "node:path";
import { Contract } from "ethers";
import { lensInterface, turnpikeInterface } from "turnpike/chain";
import { lensAddressOf, type Network, Unavailable } from "turnpike/protocol";
import { type ChainOptions, freePort, startChain } from "./chain";
import { type ChainDeployment, deployOn } from "./chain-deployment";
import { ExampleProvider } from "./example-provider";
import { type LocalFacilitator, localFacilitator } from "./facilitator";
import { type Inbox, providerKey, startInbox } from "./inbox";
import { gateOptionsOf, type Participants, type ParticipantsBase, startParticipants } from "./participants";
import { StartedParts } from "./restartable";
import { createSandboxControls, type SandboxFacts } from "./test-clock";

export { DAY_SEC, INTERVAL_SEC, UNIT } from "./chain-deployment";
export type { TestAgent } from "./participants";

const BLOCK_MS = 500;

const MAX_POLL_MS = 250;

export interface WorldOptions extends Pick<ChainOptions, "isSpared"> {
  /** default 31337 */
  readonly chainId?: number;
  /** the id of a second chain of the same Facilitator; default: there is none */
  readonly secondChainId?: number | undefined;
  readonly blockMs?: number;
  /** folder of everything that this world writes; removed when it stops */
  readonly folder: string;
  /** starts a chain; default: as a process of its own */
  readonly startChain?: typeof startChain;
  /** of the Facilitator's PostgreSQL; default: an embedded database in `folder` */
  readonly databaseUrl?: string | undefined;
  /** the preferred ports; default any free ones, as those of a second chain's parts */
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

/** A chain with everything that uses it. */
export interface World extends Participants, ChainDeployment {
  readonly facilitator: LocalFacilitator;
  /** what every gate of this world is configured with */
  readonly gateOptions: ReturnType<typeof gateOptionsOf>;
  /** a folder for what gates keep; removed when the world stops */
  readonly home: string;
  /** worthless anywhere but here */
  readonly providerKey?: string;
  readonly inbox?: Inbox;
  /** Turnpike, with read access as anyone has it. */
  readonly turnpike: Contract;
  /** what `turnpike` stores, as structs */
  readonly lens: Contract;
  /** the same Facilitator's second chain, with a provider, a specialist, plans and agents of its own */
  readonly second?: World;
  /** Stops everything, whichever chain's world is asked. */
  stop(): Promise<void>;
}

export async function startWorld(options: WorldOptions): Promise<World> {
  const started = new StartedParts();
  try {
    return await startParts(options, started);
  } catch (error) {
    await started.stop();
    throw error;
  }
}

async function startParts(options: WorldOptions, started: StartedParts): Promise<World> {
  const { blockMs = BLOCK_MS, folder, ports, withInbox = false, onStart = () => undefined } = options;
  const home = mkdtempSync(path.join(folder, "turnpike-run-"));
  started.onStop(async () => rmSync(home, { recursive: true, force: true }));
  const deployments = await startDeployments(options, started, home);
  const [first] = deployments;

  onStart("the Facilitator with its dashboard");
  const providers = deployments.map(() => new ExampleProvider());
  const flush = async (): Promise<void> => void (await Promise.all(providers.map((each) => each.flush())));
  const facts = new Map<string, SandboxFacts>();
  // One for each chain: each has a clock of its own.
  const sandboxes = new Map(
    deployments.map(({ contracts: { network } }) => {
      const factsOfChain = (): SandboxFacts => {
        const known = facts.get(network);
        if (!known) throw new Unavailable("the sandbox is still starting");
        return known;
      };
      return [network, createSandboxControls(factsOfChain)];
    }),
  );
  const facilitator = started.add(
    await localFacilitator({
      deployments,
      blockMs,
      home,
      databaseUrl: options.databaseUrl,
      port: ports?.facilitator,
      operator: first.providerAccount.address,
      ...(withInbox && { sandbox: ({ name }: Network) => sandboxes.get(name) }),
    }),
  );
  const apiKey = withInbox ? await providerKey(facilitator.url, first.providerAccount) : undefined;
  const inbox = apiKey
    ? started.add(await startInbox(facilitator.url, apiKey, await freePort(ports?.inbox)))
    : undefined;
  if (apiKey) {
    for (const { chain, contracts } of deployments)
      facts.set(contracts.network, {
        rpcUrl: chain.rpcUrl,
        facilitatorUrl: facilitator.url,
        network: contracts.network,
        apiKey,
        inboxUrl: inbox && `${inbox.url}/`,
        beforeStep: flush,
      });
  }

  onStart("the provider and the agents");
  const worlds: World[] = [];
  for (const [place, deployment] of deployments.entries()) {
    const own = place === 0 ? home : path.join(home, deployment.contracts.network);
    mkdirSync(own, { recursive: true });
    const base: ParticipantsBase = { deployment, facilitator, home: own, pollMs: Math.min(blockMs, MAX_POLL_MS) };
    const participants = await startParticipants(base, started, {
      exampleProvider: providers[place] as ExampleProvider,
      ports: place === 0 ? ports : undefined,
      apiKey,
      elsewhere: deployments.find((other) => other !== deployment),
    });
    worlds.push(worldOf(base, participants, { apiKey, inbox, stop: () => started.stop() }));
  }
  const [world, second] = worlds as [World, World?];
  return { ...world, ...(second && { second }) };
}

/** Starts the chains and deploys the contracts, the token and the plans on each. */
async function startDeployments(
  options: WorldOptions,
  started: StartedParts,
  home: string,
): Promise<[ChainDeployment, ...ChainDeployment[]]> {
  const { chainId, secondChainId, blockMs = BLOCK_MS, isSpared = false, ports, onStart = () => undefined } = options;
  const start = options.startChain ?? startChain;
  const given = { blockMs, isSpared };
  onStart(secondChainId === undefined ? "a chain" : "two chains");
  const chains = [started.add(await start({ ...given, ...(chainId && { chainId }), port: ports?.chain }))];
  if (secondChainId !== undefined) chains.push(started.add(await start({ ...given, chainId: secondChainId })));
  onStart("the contracts, a test token and plans");
  return (await Promise.all(chains.map((chain) => deployOn(chain, { blockMs, home })))) as [ChainDeployment];
}

function worldOf(
  base: ParticipantsBase,
  participants: Participants,
  {
    apiKey,
    inbox,
    stop,
  }: { readonly apiKey?: string | undefined; readonly inbox?: Inbox | undefined; stop(): Promise<void> },
): World {
  const { deployment, facilitator, home } = base;
  const { chain, contracts } = deployment;
  return {
    ...deployment,
    ...participants,
    facilitator,
    gateOptions: gateOptionsOf(base),
    home,
    ...(apiKey && { providerKey: apiKey }),
    ...(inbox && { inbox }),
    turnpike: new Contract(contracts.turnpike, turnpikeInterface, chain.provider),
    lens: new Contract(lensAddressOf(contracts.turnpike), lensInterface, chain.provider),
    stop,
  };
}
