/** Publishes a running sandbox's addresses: to other programs in the folder's files, to a reader in lines. */
import { QUOTE_PRICE } from "../../examples/provider";
import type { Documentation } from "./documentation";
import { envFile } from "./folder-lock";
import { type SandboxState, stateOf, writeState } from "./state";
import { units } from "./wording";
import type { World } from "./world";

/** @returns the lines, and what the files have */
export async function announce(
  world: World,
  folder: string,
  documentation: Pick<Documentation, "url" | "isBuilt">,
): Promise<{ readonly state: SandboxState; readonly lines: readonly string[] }> {
  const file = await writeState(world, folder);
  const state = stateOf(world);
  const { facilitatorUrl, providerUrl, specialistUrl, dashboardUrl, providerApiKey, inboxUrl, providerTestKey } = state;
  const lines = [
    ...(state.chains ?? [state]).map(({ chainId, rpcUrl }) => `Chain ${chainId} at ${rpcUrl}`),
    `Facilitator at ${facilitatorUrl}`,
    `Provider at ${providerUrl}`,
    `Dashboard at ${dashboardUrl} (it opens signed in; API key ${providerApiKey})`,
    `To act in it, put the provider's test key ${providerTestKey.privateKey} into a wallet on this chain`,
    `Payment page at ${providerUrl}/quote (open it in a browser)`,
    `Webhooks that arrived at ${inboxUrl}/`,
    `Documentation at ${documentation.url}/${documentation.isBuilt() ? "" : " once `npm run docs` has built it"}`,
    `Specialist at ${specialistUrl}`,
    `Addresses and test keys in ${file}`,
  ];
  return { state, lines };
}

/** How to buy and to sell by the package's own commands. */
export function firstSteps({ testKeys: [buyer], ...state }: SandboxState, folder: string): readonly string[] {
  const { token, facilitatorUrl, providerUrl } = state;
  const settings = {
    TURNPIKE_WALLET_KEY: buyer?.privateKey,
    TURNPIKE_TOKEN: token,
    TURNPIKE_FACILITATOR_URL: facilitatorUrl,
  };
  return [
    "",
    "Buy in another terminal, with a funded test key that is worthless elsewhere:",
    `  export ${Object.entries(settings)
      .map(([name, value]) => `${name}=${value}`)
      .join(" ")}`,
    `  npx turnpike pay ${providerUrl}/quote --max ${units(BigInt(QUOTE_PRICE))}`,
    "Sell from your own program, whose configure() reads these settings:",
    `  node --env-file=${inShell(envFile(folder))} server.mjs`,
  ];
}

const inShell = (file: string): string => (/^[\w./-]+$/.test(file) ? file : `'${file.replaceAll("'", "'\\''")}'`);
