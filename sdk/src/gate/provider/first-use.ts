/**
 * Completes a provider's options by what its Facilitator says of itself the first time: the network, and the signer of
 * its proofs. Both are pinned in the claim store, so that a later answer changes nothing. Only https proves who answers,
 * and only a store that lasts remembers it; elsewhere the options stay incomplete, and gates refuse them.
 */
import { createFacilitatorClient } from "../../facilitator/client";
import { type Supported, supportedOn } from "../../facilitator/supported";
import { ConfigError, caip2Of, networkOfChain, requireNetwork } from "../../protocol";
import { claimsOf } from "../core/context";
import type { ProviderOptions } from "../core/options";
import { checkProviderOptions } from "../core/provider-checks";
import { FACILITATOR_WAIT_MS, httpUrl } from "../core/settings";
import type { ClaimStore } from "../purchases/record";

/** Set by hosts whose processes and files come and go: each start there would be a first use. */
const SERVERLESS = ["AWS_LAMBDA_FUNCTION_NAME", "VERCEL", "NETLIFY", "K_SERVICE", "FUNCTIONS_WORKER_RUNTIME"] as const;

type Pins = Required<Pick<ClaimStore, "pinned">>;

/** @throws ConfigError where the network is not clear; Unavailable where the Facilitator does not answer the first time */
export async function withFirstUse(options: ProviderOptions, env = process.env): Promise<ProviderOptions> {
  checkProviderOptions(options);
  const { facilitator, network } = options;
  if (!facilitator || facilitator.trustUnsigned) return options;
  // An empty list is a mistake, and not a wish to trust the first answer.
  if (network !== undefined && facilitator.signers !== undefined) return options;
  const url = httpUrl(facilitator.url, "facilitator.url");
  if (!url.startsWith("https:") || SERVERLESS.some((name) => env[name]) || options.claims === "memory") return options;
  const store = claimsOf(options);
  try {
    return store.pinned ? await pinnedOptions(options, url, store as ClaimStore & Pins) : options;
  } finally {
    if (store !== options.claims) await store.close();
  }
}

async function pinnedOptions(options: ProviderOptions, url: string, store: Pins): Promise<ProviderOptions> {
  const { facilitator, networks, fetch, facilitatorWaitMs = FACILITATOR_WAIT_MS } = options;
  const client = createFacilitatorClient({ url, timeoutMs: facilitatorWaitMs, ...(fetch && { fetch }) });
  let asked: Promise<Supported> | undefined;
  const supported = (): Promise<Supported> => (asked ??= client.supported());
  const network =
    options.network ?? (await store.pinned(`network of ${url}`, async () => onlyNetwork(await supported())));
  const named = { ...options, network };
  if (facilitator?.signers !== undefined) return named;
  const { chainId } = requireNetwork(network, networks);
  const signer = await store.pinned(`signer of ${url} on ${caip2Of(chainId)}`, async () => {
    const [current] = supportedOn(await supported(), chainId).proofSigners;
    process.emitWarning(
      `Pinned ${current}, the signer of ${url} on ${networkOfChain(chainId, networks).name}, on first use. Compare it with what its operator publishes.`,
      { code: "TurnpikePinned" },
    );
    return current as string;
  });
  return { ...named, facilitator: { ...facilitator, url, signers: [signer] } };
}

function onlyNetwork(supported: Supported): string {
  const chains = supported.chains ?? [supported];
  const [only] = chains;
  if (only && chains.length === 1) return caip2Of(only.chainId);
  const names = chains.map(({ network }) => network).join(", ");
  throw new ConfigError(`network is not set (TURNPIKE_NETWORK): the Facilitator settles on ${names}; name one`);
}
