/** `.sandbox/state.json` and `state.env`: what another program needs to use the running sandbox. */
import { renameSync, writeFileSync } from "node:fs";
import { Wallet } from "ethers";
import { testKey } from "./chain";
import { TEST_TOKEN } from "./contracts";
import { envFile, stateFile } from "./folder-lock";
import { UNIT, type World } from "./world";

/** Accounts with tokens and ether for trying the sandbox. */
const VISITORS = ["visitor 1", "visitor 2", "visitor 3"];

export type SandboxState = ReturnType<typeof stateOf>;

export function stateOf(world: World) {
  const { facilitator, second } = world;
  return {
    ...chainStateOf(world),
    facilitatorUrl: facilitator.url,
    facilitatorSigner: facilitator.signer,
    dashboardUrl: `${facilitator.url}/`,
    /** the provider's, worthless anywhere but here */
    providerApiKey: world.providerKey ?? "",
    inboxUrl: world.inbox?.url,
    routes: {
      free: "GET /free",
      oneTime: "GET /quote",
      subscription: "GET /report",
      choice: "GET /choice",
      metered: "POST /complete",
      ...(second && { anywhere: "GET /anywhere" }),
    },
    tokenName: TEST_TOKEN.name,
    tokenVersion: TEST_TOKEN.version,
    tokenDecimals: TEST_TOKEN.decimals,
    /** of two chains, the facts of each; those above are of the first */
    ...(second && { chains: [world, second].map(chainStateOf) }),
    /** worthless anywhere but here */
    testKeys: VISITORS.map((name) => keyOf(new Wallet(testKey(name)))),
    /** signs what the provider does in the dashboard */
    providerTestKey: keyOf(world.providerAccount),
  };
}

const keyOf = ({ address, privateKey }: Wallet) => ({ address, privateKey });

/** What differs from chain to chain. */
function chainStateOf({ chain, contracts, provider, specialist, plans }: World) {
  return {
    rpcUrl: chain.rpcUrl,
    chainId: contracts.chainId,
    network: contracts.network,
    providerUrl: provider.url,
    specialistUrl: specialist.url,
    token: contracts.token,
    turnpike: contracts.turnpike,
    batchSettler: contracts.batchSettler,
    plans,
  };
}

/** The settings of a seller, and of a buyer in the quickstarts. */
function variablesOf({ testKeys: [buyer, , seller], ...state }: SandboxState): Readonly<Record<string, unknown>> {
  return {
    TURNPIKE_NETWORK: state.network,
    TURNPIKE_RPC_URL: state.rpcUrl,
    TURNPIKE_ADDRESS: state.turnpike,
    TURNPIKE_TOKEN: state.token,
    TURNPIKE_TOKEN_DECIMALS: state.tokenDecimals,
    TURNPIKE_TOKEN_CURRENCY: "USD",
    TURNPIKE_FACILITATOR_URL: state.facilitatorUrl,
    TURNPIKE_FACILITATOR_SIGNERS: state.facilitatorSigner,
    TURNPIKE_PAY_TO: seller?.address,
    AGENT_KEY: buyer?.privateKey,
  };
}

/** Writes the state into `folder`. @returns the file */
export async function writeState(world: World, folder: string): Promise<string> {
  for (const { chain, contracts } of [world, ...(world.second ? [world.second] : [])]) {
    for (const name of VISITORS) await contracts.mint((await chain.wallet(name)).address, 1_000n * UNIT);
  }
  const state = stateOf(world);
  const lines = Object.entries(variablesOf(state)).map(([name, value]) => `${name}=${value}\n`);
  const file = stateFile(folder);
  publish(envFile(folder), lines.join(""));
  publish(file, `${JSON.stringify(state, null, 2)}\n`);
  return file;
}

/** Writes a file atomically: another program may be waiting for it. */
function publish(file: string, text: string): void {
  const draft = `${file}.draft`;
  writeFileSync(draft, text);
  renameSync(draft, file);
}
