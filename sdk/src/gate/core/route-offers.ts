/** What a route offers now: its one-time prices and plans, without those whose terms cannot be read. */
import { type Hex, isTurnpikeError, type TurnpikeError, Unavailable } from "../../protocol";
import { atMost, keptCall } from "../../protocol/exchange";
import { bodyUnbound } from "./body";
import type { GateContext } from "./context";
import type { Offer, OfferContext } from "./offers";
import type { Price, Pricing } from "./pricing";
import { needsSupport, offeredTermsOf, requireSupport, supportOutage } from "./readiness";
import type { GateRequest } from "./request";

export interface OffersNow {
  readonly offers: readonly Offer[];
  /** why nothing can be offered now; names no host to a client */
  readonly outage?: Unavailable;
  /** of the contexts whose prices are left out */
  readonly outages: ReadonlyMap<OfferContext, Unavailable>;
}

/** A list of offers, and the terms that it was made from. */
interface CachedOffers {
  readonly read: readonly unknown[];
  readonly plans: readonly unknown[];
  readonly offers: readonly Offer[];
}

type ComputedPrice = Extract<Price, { kind: "computed" }>;

type AmountOf = (price: ComputedPrice) => bigint | Promise<bigint>;

export class RouteOffers {
  readonly #context: GateContext;
  readonly #pricing: Pricing;
  readonly #bindsBody: boolean;
  readonly #loaders: readonly TermsLoader[];
  /** contexts with a price that can be quoted only as their Facilitator states */
  readonly #asked: readonly GateContext[];
  readonly #isFixed: boolean;
  #cached: CachedOffers | undefined;

  /** @param context the provider's own, which sells the plans */
  constructor(context: GateContext, pricing: Pricing, { bindsBody }: { readonly bindsBody: boolean }) {
    const { prices, planIds, contexts } = pricing;
    this.#context = context;
    this.#pricing = pricing;
    this.#bindsBody = bindsBody;
    this.#loaders = contexts.map(
      (each) =>
        new TermsLoader(each, {
          planIds: each === context ? planIds : [],
          withToken: prices.some((price) => price.context === each),
          withDomain: prices.some((price) => price.context === each && !needsSupport(price)),
        }),
    );
    this.#asked = [...new Set(prices.filter(needsSupport).map((price) => price.context))];
    this.#isFixed = prices.every(({ kind }) => kind === "fixed");
  }

  /** Loads what offers are made from. @throws ConfigError, Unavailable */
  async load(): Promise<void> {
    await readyAny(this.#loaders);
    await Promise.all(this.#pricing.prices.map(requireSupport));
  }

  /** Asks Facilitators that have not answered yet what they settle, and waits for none. */
  askSupport(): void {
    void supportOutage(this.#asked);
  }

  /** Returns the offers where they need no call and no computation: the same list while the terms are the same. */
  cached(): readonly Offer[] | undefined {
    const unready = this.#loaders.some(({ isLoaded, isMisconfigured }) => !isLoaded || isMisconfigured);
    if (!this.#isFixed || unready) return undefined;
    const supports = this.#asked.map(({ support }) => support.known());
    if (supports.includes(undefined)) return undefined;
    const { prices, planIds, contexts } = this.#pricing;
    const { terms } = this.#context;
    const read = [...contexts.map(tokenOf), ...supports];
    const cached = this.#cached;
    const isSame = cached?.read.every((each, i) => each === read[i]);
    if (cached && isSame && cached.plans.every((plan, i) => plan === terms.plan(planIds[i] as Hex))) {
      return cached.offers;
    }
    const fixed = prices.flatMap((price) => (price.kind === "fixed" ? oneTimeAt(price, price.amount) : []));
    const offers = [...fixed, ...this.#subscriptions()];
    this.#cached = { read, plans: planIds.map((planId) => terms.plan(planId)), offers };
    return offers;
  }

  /**
   * Returns every option at its current price, without those whose terms cannot be read; the outage where none can be.
   * @throws ConfigError
   */
  now(request: GateRequest): Promise<OffersNow> {
    return this.#at((price) => this.#amountFor(price, request));
  }

  /**
   * Returns every option, whatever is asked for. Prices are above 0: an amount of 0 depends on the request.
   * @throws ConfigError; Unavailable where the terms of any cannot be read
   */
  async listed(): Promise<readonly Offer[]> {
    const { offers, outage, outages } = await this.#at(() => 0n);
    for (const missing of [outage, ...outages.values()]) if (missing) throw missing;
    return offers;
  }

  async #at(amountOf: AmountOf): Promise<OffersNow> {
    const [, unsupported] = await Promise.all([retryAll(this.#loaders), supportOutage(this.#asked)]);
    const sound = this.#loaders.filter(({ isMisconfigured }) => !isMisconfigured);
    if (sound.length === 0) throw this.#loaders[0]?.fault;
    const sold = new Set(sound.map((loader) => loader.context));
    const plans = sold.has(this.#context);
    const offers = [...(await this.#oneTime(amountOf, sold)), ...(plans ? this.#subscriptions() : [])];
    const missing = sound.filter(({ isLoaded }) => !isLoaded);
    const outages = new Map(missing.map((loader) => [loader.context, loader.outage()]));
    const outage = [...outages.values()][0] ?? unsupported;
    return { offers, outages, ...(offers.length === 0 && outage ? { outage } : {}) };
  }

  async #oneTime(amountOf: AmountOf, sold: ReadonlySet<GateContext>): Promise<Offer[]> {
    const offers: Offer[] = [];
    for (const price of this.#pricing.prices) {
      if (!sold.has(price.context)) continue;
      offers.push(...oneTimeAt(price, price.kind === "fixed" ? price.amount : await amountOf(price)));
    }
    return offers;
  }

  /** Asks the provider's price function. @throws ConfigError where it reads a body that the route does not bind */
  async #amountFor(price: ComputedPrice, request: GateRequest): Promise<bigint> {
    const wasRead = request.isBodyRead;
    const amount = await price.of(request.raw);
    if (!this.#bindsBody && !wasRead && request.isBodyRead) throw bodyUnbound("the price");
    return amount;
  }

  /** A deprecated plan still serves its subscribers, but is not offered. */
  #subscriptions(): Offer[] {
    const context = this.#context;
    return this.#pricing.planIds.flatMap((planId): Offer[] => {
      const plan = context.terms.plan(planId);
      const token = plan && context.terms.token(plan.token);
      if (!plan || !token || plan.deprecated) return [];
      return [{ kind: "subscription", context, amount: plan.amount, payTo: plan.payTo, token, plan }];
    });
  }
}

/** @returns no offer while its terms are not known */
function oneTimeAt(price: Price, amount: bigint): Offer[] {
  const { context } = price;
  const token = tokenOf(context);
  const { payTo } = context.settings;
  const { scheme, method } = price;
  const terms = offeredTermsOf(price);
  if (!token || !payTo || terms === "unsupported") return [];
  return [{ kind: "one-time", context, amount, payTo, token, scheme, method, ...terms }];
}

/** The token of a context's one-time prices, where its terms are known. */
const tokenOf = ({ settings, terms }: GateContext) => settings.token && terms.token(settings.token.address);

const RETRY_AFTER_MS = 2_000;

export interface LoadedTerms {
  readonly planIds: readonly Hex[];
  readonly withToken: boolean;
  /** whether payers sign for the token's own domain */
  readonly withDomain: boolean;
}

const LONGEST_READING_MS = 30_000;

/** Loads the terms of a route in one context, and again after an outage or a wrong setting. */
export class TermsLoader {
  readonly context: GateContext;
  readonly #wanted: LoadedTerms;
  /** Loads them now. @throws ConfigError, Unavailable */
  readonly load = keptCall(LONGEST_READING_MS, () => this.#read());
  #isReading = false;
  #isLoaded = false;
  #startedAtMs: number | undefined;
  #readingAtMs = 0;
  #retryAtMs = 0;
  #fault: TurnpikeError | undefined;

  constructor(context: GateContext, wanted: LoadedTerms) {
    this.context = context;
    this.#wanted = wanted;
  }

  /** whether the terms were read: they stay known in an outage */
  get isLoaded(): boolean {
    return this.#isLoaded;
  }

  /** whether a setting is wrong as far as is known: nothing may be sold by it */
  get isMisconfigured(): boolean {
    return this.#fault?.code === "ConfigError";
  }

  /** why the last reading failed; counts until a later one succeeds */
  get fault(): TurnpikeError | undefined {
    return this.#fault;
  }

  /** how long the first reading has taken so far; infinite once one has failed */
  get unreadMs(): number {
    return performance.now() - (this.#startedAtMs ?? performance.now());
  }

  /** how long the reading that is under way has taken so far */
  get readingMs(): number {
    return this.#isReading ? performance.now() - this.#readingAtMs : 0;
  }

  /** Loads them where they are not sound, at most once in two seconds. */
  async retry(): Promise<void> {
    if ((this.#isLoaded && !this.isMisconfigured) || performance.now() < this.#retryAtMs) return;
    try {
      await this.load();
    } catch (error) {
      // The caller decides on `fault`: an outage leaves options out of this answer, a wrong setting is reported.
      if (!isTurnpikeError(error)) throw error;
    }
  }

  /** Returns the outage that keeps this context from quoting. */
  outage(): Unavailable {
    const message = "The chain cannot be read now, so no price can be quoted; nothing was charged.";
    const retryAfterSec = this.#fault?.retryAfterSec ?? RETRY_AFTER_MS / 1_000;
    return new Unavailable(message, { cause: this.#fault, retryAfterSec });
  }

  async #read(): Promise<void> {
    const { terms } = this.context;
    if (this.#isReading) this.#startedAtMs = undefined;
    this.#isReading = true;
    this.#readingAtMs = performance.now();
    this.#startedAtMs ??= this.#readingAtMs;
    try {
      await terms.load(this.#wanted.planIds, this.#wanted.withToken);
      this.#isLoaded = true;
      await terms.checkChain();
      if (this.#wanted.withDomain) await terms.checkDomain();
      this.#fault = undefined;
    } catch (error) {
      this.#startedAtMs = Number.NEGATIVE_INFINITY;
      this.#retryAtMs = performance.now() + RETRY_AFTER_MS;
      this.#fault = isTurnpikeError(error) ? error : undefined;
      throw error;
    } finally {
      this.#isReading = false;
    }
  }
}

/**
 * Loads every context's terms. With several, the outage of one is logged and the others are sold.
 * @throws ConfigError of any; Unavailable where none can be read
 */
export async function readyAny(loaders: readonly TermsLoader[]): Promise<void> {
  const results = await Promise.allSettled(loaders.map((loader) => loader.load()));
  const failed = results.filter((result) => result.status === "rejected").map(({ reason }) => reason as unknown);
  const isOutage = (error: unknown) => isTurnpikeError(error) && error.code === "Unavailable";
  const fault = failed.find((error) => !isOutage(error)) ?? (failed.length === loaders.length ? failed[0] : undefined);
  if (fault !== undefined) throw fault;
}

/** How long requests wait for a reading, since it began. */
const PATIENCE_MS = 1_000;

/**
 * Reads what is not known yet, and waits for a bounded time. Where others can be sold meanwhile, only the first reading
 * of one is waited for.
 */
export async function retryAll(loaders: readonly TermsLoader[]): Promise<void> {
  const missing = loaders.filter(({ isLoaded, isMisconfigured }) => !isLoaded || isMisconfigured);
  if (missing.length === 0) return;
  const retried = Promise.all(missing.map((loader) => loader.retry()));
  // A reading that was lost with its request begins again, and is waited for as a new one.
  await atMost(0, retried, () => undefined);
  const takenMs = missing.map((each) => (missing.length === loaders.length ? each.readingMs : each.unreadMs));
  await atMost(PATIENCE_MS - Math.max(...takenMs), retried, () => undefined);
}
