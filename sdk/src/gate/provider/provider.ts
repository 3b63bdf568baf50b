/**
 * Creates a provider: one configuration, and every operation on it. Also holds the one provider behind the free
 * functions: configured by `configure()`, or by the environment on first use.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import {
  ConfigError,
  type Hex,
  isHash32,
  type PaymentProof,
  type PaymentRequiredWire,
  parsePaymentProof,
} from "../../protocol";
import { anObject, isObject, wrongKind } from "../../protocol/arguments";
import { type NodeGate, nodeGate } from "../adapters/node-gate";
import { watchResponse } from "../adapters/node-response";
import { createGateContext, type GateContext } from "../core/context";
import type { GateOptions } from "../core/gate-options";
import { optionsFromEnvironment, type ProviderOptions, signersFromEnvironment } from "../core/options";
import type { Amount } from "../core/pricing";
import { NodeGateRequest } from "../core/request";
import { createGate, type Gate, type ListedGate, requirePinnedSigner } from "../decision/gate";
import { openRequestScope, requestScopes } from "../decision/request-scope";
import { DIALECTS, type Dialects, dialectsOf } from "../dialects";
import { type OpenApiDocument, readDocument } from "../discovery/document";
import { type OpenApiHandler, openApiHandler } from "../discovery/serve";
import type { Deduction } from "../metering/charges";
import type { UnsettledReport } from "../metering/store";
import type { DeductUsage } from "../metering/usage-meter";
import { reportsOf } from "../reporting/funnel-metrics";
import { meterOf } from "./create-meter";
import { withFirstUse } from "./first-use";
import { type AnyRequest, buildPlanQuote, followRequests, verifyProof } from "./verify";

/** One configuration: its operations and its gates. */
export interface Provider {
  /** Express or node middleware that lets paid requests through. @throws ConfigError */
  paymentGate<Req = IncomingMessage>(options: GateOptions<Req>): NodeGate;
  /** The same decision for any framework's adapter. @throws ConfigError */
  gate<Req>(options: GateOptions<Req>): Gate;
  /**
   * Returns the handler of GET /openapi.json: the prices of this provider's routes whose path is known, merged into the
   * application's document. It serves in every framework; what it lists is public.
   * @throws ConfigError that names the document's field
   */
  openApi(document?: OpenApiDocument): OpenApiHandler;
  /** @throws InvalidPaymentProof for anything that is not a well-formed proof */
  parsePaymentProof(headerValue: string): PaymentProof;
  /**
   * Returns whether the proof pays for this request; true claims it, so that it buys one request.
   * @throws Unavailable when the outcome is unknown, ProofInFlight while another request uses it; never false for these
   */
  verifyPaymentProof(proof: PaymentProof, options?: { readonly request?: AnyRequest }): Promise<boolean>;
  /** A 402 body for a plan. @throws ConfigError when the plan was not loaded */
  buildPaymentRequired(options: { readonly plan: string; readonly request?: AnyRequest }): PaymentRequiredWire;
  /** Charges overage to the current request's subscription. @see Payment.deduct */
  deductAllowance(amount: Amount, usage?: DeductUsage): Promise<Deduction>;
  /** Middleware that gives the operations above their request where no gate does. */
  context(): (request: IncomingMessage, response: ServerResponse, next: () => void) => void;
  /**
   * Rejects with what is wrong: a plan, the contract, the chain, or a key that could never collect what metered routes
   * charge (ConfigError); or with an outage (Unavailable).
   */
  ready(): Promise<void>;
  /** Debits what metered calls owe now instead of when it is due, and waits for it: before a shutdown, or in tests. */
  flush(): Promise<void>;
  /** What metered subscriptions owe and is not final on chain yet, and what was lost. @throws Unavailable */
  unsettled(): Promise<UnsettledReport>;
  /** Debits what is owed and releases every resource. */
  close(): Promise<void>;
}

const NOTHING_OWED: UnsettledReport = { unsettled: 0n, charged: 0n, settled: 0n, lost: 0n, subscriptions: [] };

/** @throws ConfigError naming the setting */
export function createProvider(options: ProviderOptions): Provider {
  return providerFrom(createGateContext(options, { meterOf, reportsOf }), options.plans, dialectsOf(options));
}

/** Creates the operations over an existing context. */
export function providerFrom(
  context: GateContext,
  planIds: readonly string[] = [],
  dialects: Dialects = DIALECTS,
): Provider {
  const gates: ListedGate[] = [];
  const plans = planIds.map((plan): Hex => {
    if (!isHash32(plan)) throw new ConfigError(`plans has "${plan}": a plan id is 0x and 64 hex digits`);
    return plan.toLowerCase() as Hex;
  });
  const offered = new Set(plans);

  function gate<Req>(gateOptions: GateOptions<Req>): Gate {
    if (!isObject(gateOptions)) throw wrongKind(gateOptions, "options", "an object, in { }");
    const made = createGate(context, gateOptions, dialects);
    gates.push(made);
    for (const entry of gateOptions.pricing ?? []) {
      if (entry.type === "subscription") offered.add(entry.plan.toLowerCase() as Hex);
    }
    return made;
  }

  return {
    gate,
    paymentGate: (gateOptions) => nodeGate(gate(gateOptions)),
    openApi: (document) =>
      openApiHandler({
        document: readDocument(document),
        known() {
          for (const late of unopened) void late.origin;
          return { routes: gates.flatMap(({ listed }) => listed ?? []), publicUrl: context.settings.publicUrl };
        },
      }),
    parsePaymentProof,
    async verifyPaymentProof(proof, options = {}) {
      anObject(proof, "proof");
      anObject(options, "options");
      const { request } = options;
      return verifyProof(context, proof, request);
    },
    buildPaymentRequired(planOptions) {
      anObject(planOptions, "options");
      return buildPlanQuote(context, planOptions.plan, planOptions.request);
    },
    deductAllowance,
    context: () => (request, response, next) => {
      const scope = openRequestScope(new NodeGateRequest(request));
      watchResponse({ response, scope });
      requestScopes.run(scope, next);
    },
    async ready() {
      await requirePinnedSigner(context);
      await context.terms.checkChain();
      await context.terms.load(plans, context.rpc !== undefined && context.settings.payTo !== undefined);
      await Promise.all(gates.map((made) => made.ready()));
      await context.meter?.proveAny([...offered]);
      await context.time.refresh();
      await context.meterStarted();
    },
    async flush() {
      await context.meterStarted();
      await context.reports?.flush();
      await context.meter?.flush();
    },
    async unsettled() {
      await context.meterStarted();
      return context.meter?.unsettled() ?? NOTHING_OWED;
    },
    close: () => context.close(),
  };
}

/** Charges the current request's subscription. Needs no provider: the request scope has it. */
export async function deductAllowance(amount: Amount, usage?: DeductUsage): Promise<Deduction> {
  const payment = requestScopes.getStore()?.payment;
  if (payment) return payment.deduct(amount, usage);
  throw new ConfigError("deductAllowance was called outside a request that paymentGate let through");
}

/** What a gate of the free functions offers. */
export type DefaultGateOptions<Req> = GateOptions<Req> & {
  /** default: the one that configure() or the environment named */
  readonly provider?: Provider;
};

// Shared by the ESM and the CommonJS copy of this package, should a process hold both.
const SLOT = Symbol.for("turnpike.provider");

const slot = globalThis as { [SLOT]?: Provider };

/**
 * Configures the free functions; what is not given here is taken from the environment, and the network and the signers
 * that neither names from the Facilitator, which are pinned. Loads `plans`.
 * @throws ConfigError for a wrong setting; Unavailable when the chain cannot be asked
 */
export async function configure(options: ProviderOptions = {}): Promise<Provider> {
  anObject(options, "options");
  const provider = createProvider(await withFirstUse(withEnvironment(options)));
  await installProvider(provider);
  await provider.ready();
  return provider;
}

/** Signers of the environment also count where code names the Facilitator alone: nothing is pinned in their place. */
function withEnvironment(options: ProviderOptions): ProviderOptions {
  const environment = optionsFromEnvironment(process.env);
  const { facilitator } = options;
  const signers = signersFromEnvironment(process.env);
  if (!isObject(facilitator) || facilitator.signers !== undefined || !signers) return { ...environment, ...options };
  return { ...environment, ...options, facilitator: { ...facilitator, signers } };
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

export function gateOf<Req>(given: DefaultGateOptions<Req>): Gate {
  requireOptions(given);
  const { provider, ...options } = given;
  return (provider ?? defaultProvider()).gate(options);
}

/** @throws ConfigError also where a framework called `paymentGate` itself, with a request */
export function requireOptions(given: DefaultGateOptions<never>): void {
  if (!isObject(given)) throw wrongKind(given, "paymentGate's options", "an object, in { }");
  if (!("pricing" in given || "price" in given) && REQUEST_FIELDS.some((name) => name in given)) {
    throw new ConfigError(
      'paymentGate was given a request in place of its options: call it where it is mounted, as in paymentGate({ price: "$0.50" })',
    );
  }
  const { provider } = given as DefaultGateOptions<never>;
  if (provider === undefined || typeof provider?.gate === "function") return;
  throw wrongKind(provider, "provider", "what createProvider() returns");
}

/** Of the requests and contexts of all frameworks, and of no options. */
const REQUEST_FIELDS = ["headers", "req", "raw"] as const;

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

/** @see Provider.openApi; the provider is asked for with the first request */
export function openApi(document?: OpenApiDocument): OpenApiHandler {
  readDocument(document);
  let opened: { readonly provider: Provider; readonly handler: OpenApiHandler } | undefined;
  const handler = (): OpenApiHandler => {
    const provider = defaultProvider();
    if (opened?.provider !== provider) opened = { provider, handler: provider.openApi(document) };
    return opened.handler;
  };
  const serve = async (...asked: Parameters<OpenApiHandler>) => handler()(...asked);
  return Object.assign(serve as OpenApiHandler, { document: async () => handler().document() });
}

/** Gates that open with their first request: documents open those that they list. */
const unopened: Gate[] = [];

/** Has documents list a gate that opens later. */
export function listLater<Req>(gate: Gate, { discovery }: GateOptions<Req>): Gate {
  if (discovery?.path !== undefined) unopened.push(gate);
  return gate;
}

/** @see Provider.context */
export function context(): ReturnType<Provider["context"]> {
  return defaultProvider().context();
}
