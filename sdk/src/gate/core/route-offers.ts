/** What a route offers now: its one-time prices and plans, without those whose terms cannot be read. */
import type { Hex, Unavailable } from "../../protocol";
import { bodyUnbound } from "./body";
import type { GateContext } from "./context";
import type { Offer, OfferContext } from "./offers";
import type { Price, Pricing } from "./pricing";
import type { GateRequest } from "./request";
import { needsSupport, offeredTermsOf, requireSupport, supportOutage } from "./stated-support";
import { readyAny, retryAll, TermsLoader } from "./terms-loader";

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
  async now(request: GateRequest): Promise<OffersNow> {
    const [, unsupported] = await Promise.all([retryAll(this.#loaders), supportOutage(this.#asked)]);
    const sound = this.#loaders.filter(({ isMisconfigured }) => !isMisconfigured);
    if (sound.length === 0) throw this.#loaders[0]?.fault;
    const sold = new Set(sound.map((loader) => loader.context));
    const plans = sold.has(this.#context);
    const offers = [...(await this.#oneTime(request, sold)), ...(plans ? this.#subscriptions() : [])];
    const missing = sound.filter(({ isLoaded }) => !isLoaded);
    const outages = new Map(missing.map((loader) => [loader.context, loader.outage()]));
    const outage = [...outages.values()][0] ?? unsupported;
    return { offers, outages, ...(offers.length === 0 && outage ? { outage } : {}) };
  }

  async #oneTime(request: GateRequest, sold: ReadonlySet<GateContext>): Promise<Offer[]> {
    const offers: Offer[] = [];
    for (const price of this.#pricing.prices) {
      if (!sold.has(price.context)) continue;
      offers.push(...oneTimeAt(price, price.kind === "fixed" ? price.amount : await this.#amountFor(price, request)));
    }
    return offers;
  }

  /** Asks the provider's price function. @throws ConfigError where it reads a body that the route does not bind */
  async #amountFor(price: Extract<Price, { kind: "computed" }>, request: GateRequest): Promise<bigint> {
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
