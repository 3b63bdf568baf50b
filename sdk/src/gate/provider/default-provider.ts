/**
 * Holds the one provider behind the free functions: configured by `configure()`, or by the environment on first use.
 */
import { ConfigError, type PaymentProof, type PaymentRequiredWire } from "../../protocol";
import type { Gate } from "../core/gate";
import { optionsFromEnvironment, type ProviderOptions } from "../core/options";
import type { GateOptions } from "../core/route";
import { createProvider, type Provider } from "./provider";
import { type AnyRequest, followRequests } from "./verify";

/** What a gate of the free functions offers. */
export interface DefaultGateOptions<Req> extends GateOptions<Req> {
  /** default: the one that configure() or the environment named */
  readonly provider?: Provider;
}

// Shared by the ESM and the CommonJS copy of this package, should a process hold both.
const SLOT = Symbol.for("turnpike.provider");

const slot = globalThis as { [SLOT]?: Provider };

/**
 * Configures the free functions; what is not given here is taken from the environment. Loads `plans`.
 * @throws ConfigError for a wrong setting; Unavailable when the chain cannot be asked
 */
export async function configure(options: ProviderOptions = {}): Promise<Provider> {
  const provider = createProvider({ ...optionsFromEnvironment(process.env), ...options });
  await installProvider(provider);
  await provider.ready();
  return provider;
}

/** Makes the free functions act on `provider`; closes the one before. */
export async function installProvider(provider: Provider): Promise<void> {
  await slot[SLOT]?.close();
  slot[SLOT] = provider;
  followRequests();
}

export function defaultProvider(): Provider {
  const configured = slot[SLOT];
  if (configured) return configured;
  const options = optionsFromEnvironment(process.env);
  if (!options.network) {
    throw new ConfigError(
      "Turnpike is not configured: await configure({ ... }) first, or set TURNPIKE_NETWORK and the other TURNPIKE_ variables",
    );
  }
  followRequests();
  const provider = createProvider(options);
  slot[SLOT] = provider;
  return provider;
}

export function gateOf<Req>({ provider, ...options }: DefaultGateOptions<Req>): Gate {
  return (provider ?? defaultProvider()).gate(options);
}

/** Closes the provider of the free functions. */
export async function close(): Promise<void> {
  const provider = slot[SLOT];
  slot[SLOT] = undefined;
  await provider?.close();
}

/** @see Provider.verifyPaymentProof */
export async function verifyPaymentProof(
  proof: PaymentProof,
  options: { readonly request?: AnyRequest } = {},
): Promise<boolean> {
  return defaultProvider().verifyPaymentProof(proof, options);
}

/** @see Provider.buildPaymentRequired */
export function buildPaymentRequired(options: {
  readonly plan: string;
  readonly request?: AnyRequest;
}): PaymentRequiredWire {
  return defaultProvider().buildPaymentRequired(options);
}

/** @see Provider.context */
export function context(): ReturnType<Provider["context"]> {
  return defaultProvider().context();
}
