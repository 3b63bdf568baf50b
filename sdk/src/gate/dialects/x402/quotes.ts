/**
 * Builds the quotes of one route: the 402 body of x402 version 1 and of this project, beside the header that clients of
 * version 2 read. They are filled into templates. Quotes of one method and resource differ only in memos and challenge, so
 * their text is kept: any client can request a 402 as often as it likes, so it must be cheap.
 */

import type { Plan } from "../../../chain/plans";
import {
  type AcceptEntryWire,
  EXTENSION,
  encodeHeaderText,
  IDEMPOTENCY_KEY_LENGTH,
  memoIssuer,
  type PaymentRequiredWire,
  type PlanTermsWire,
  periodOf,
  SUBSCRIPTION_SCHEME,
} from "../../../protocol";
import { BoundedMap } from "../../../protocol/bounded-map";
import {
  type Entry,
  expiryOf,
  factsOf,
  isUsableKey,
  keyIn,
  MAX_TIMEOUT_SEC,
  methodOf,
  type Offer,
  type Presentation,
  type Quote,
  type QuoteRequest,
  type Quotes,
  refOf,
  schemeOf,
  soldBy,
  wayOf,
} from "../../core/offers";
import { quotedMethod } from "../../core/resource";
import type { Settings } from "../../core/settings";
import { signInChallenge } from "../../schemes/subscription/sign-in";
import { headerV2Of, maxHeaderBytesOf } from "./quote-header";

/** Per route; a client that requests ever new resources only clears the templates. */
const MAX_TEMPLATES = 200;

/** Of a description, by which the log names a route: its URLs may hold keys. */
const MAX_NAME_CHARS = 40;

export function createQuotes(): Quotes {
  const templates = new BoundedMap<string, Template>(MAX_TEMPLATES);
  let hasWarned = false;
  function built(input: QuoteRequest): Quote {
    const quote = buildQuote(input);
    if (quote.cuts.length > 0 && !hasWarned) {
      hasWarned = true;
      const named = [...input.presentation.description].slice(0, MAX_NAME_CHARS).join("");
      process.emitWarning(
        `PAYMENT-REQUIRED of a route (${JSON.stringify(named)}) may take ${maxHeaderBytesOf(input)} bytes, so it lacks ${quote.cuts.join(", ")}. Shorten the description or the URL, or offer less.`,
        { code: "TurnpikeQuoteCut" },
      );
    }
    return quote;
  }
  return {
    quote(input) {
      if (!isRegular(input)) return built(input);
      const key = `${quotedMethod(input.request, input.settings)} ${input.resource}`;
      const known = templates.get(key);
      if (known && known.offers === input.offers && known.refusal === input.refusal && known.flow === input.flow)
        return filled(known, input);
      const quote = built(input);
      const template = templateOf(quote, input);
      if (template) templates.set(key, template);
      return quote;
    },
  };
}

function isRegular(input: QuoteRequest): boolean {
  if (!input.isRecurrent || input.bodyHash !== undefined) return false;
  const key = keyIn(input);
  return key === undefined || isUsableKey(key);
}

/** A text around values that change. */
interface Cut {
  readonly parts: readonly string[];
  /** the index of the value after each part but the last */
  readonly order: readonly number[];
}

interface Template {
  readonly offers: QuoteRequest["offers"];
  readonly refusal: QuoteRequest["refusal"];
  readonly flow: QuoteRequest["flow"];
  readonly sold: Quote["sold"];
  readonly memos: readonly ((ref: string) => string)[];
  readonly body: Cut;
  readonly header: Cut | undefined;
  readonly hasChallenge: boolean;
}

function templateOf(quote: Quote, input: QuoteRequest): Template | undefined {
  const { offers, refusal, flow, settings } = input;
  const headerText = quote.headerV2 && Buffer.from(quote.headerV2, "base64").toString("utf8");
  const challenge = headerText && challengeIn(headerText);
  const { memos: entries } = quote;
  const body = cut(quote.text, entries);
  const header =
    headerText === undefined ? undefined : cut(headerText, [...entries, ...(challenge ? [challenge] : [])]);
  if (!body || body.order.length !== quote.body.accepts.length || (headerText !== undefined && !header))
    return undefined;
  const memos = quote.sold.map((offer) => {
    const issue = memoIssuer(settings.memoKeys[0], factsOf(input, offer));
    return (ref: string) => issue(ref, expiryOf(offer));
  });
  return { offers, refusal, flow, sold: quote.sold, memos, body, header, hasChallenge: Boolean(challenge) };
}

function challengeIn(headerText: string): string | undefined {
  const { extensions } = JSON.parse(headerText) as { extensions?: Record<string, { info: object } | undefined> };
  const info = extensions?.[EXTENSION.signIn]?.info;
  return info && JSON.stringify(info);
}

/** @returns undefined when a value occurs twice: then the text is no template */
function cut(text: string, values: readonly string[]): Cut | undefined {
  const found = values.map((value, index) => ({ index, value, at: text.indexOf(value) })).filter(({ at }) => at >= 0);
  if (found.some(({ value, at }) => text.includes(value, at + 1))) return undefined;
  found.sort((a, b) => a.at - b.at);
  const parts: string[] = [];
  let from = 0;
  for (const { value, at } of found) {
    parts.push(text.slice(from, at));
    from = at + value.length;
  }
  return { parts: [...parts, text.slice(from)], order: found.map(({ index }) => index) };
}

function fill({ parts, order }: Cut, values: readonly string[]): string {
  let text = parts[0] ?? "";
  for (let i = 0; i < order.length; i++) text += (values[order[i] ?? 0] ?? "") + (parts[i + 1] ?? "");
  return text;
}

function filled(template: Template, input: QuoteRequest): Quote {
  const { settings, request, resource, nowSec } = input;
  const ref = refOf(input);
  const values = template.memos.map((issue) => issue(ref));
  const text = fill(template.body, values);
  if (template.hasChallenge) {
    values.push(JSON.stringify(signInChallenge(settings, { method: request.method, resource }, nowSec)));
  }
  return {
    text,
    sold: template.sold,
    memos: values.slice(0, template.memos.length),
    cuts: [],
    headerV2: template.header && encodeHeaderText(fill(template.header, values)),
    get body() {
      return JSON.parse(text) as PaymentRequiredWire;
    },
  };
}

export function buildQuote(input: QuoteRequest): Quote {
  const { settings, presentation, refusal } = input;
  const { entries, sellsSingly, plans } = soldBy(input);
  const [firstPlan] = plans;
  const accepts = entriesOfBody(entries).map(({ offer, memo }) =>
    entryOf(input, offer, { memo, sellsSingly, firstPlan }),
  );

  const idempotencyKey = keyIn(input);
  const ignored =
    idempotencyKey !== undefined && !isUsableKey(idempotencyKey)
      ? ` The Idempotency-Key was ignored: it must have ${IDEMPOTENCY_KEY_LENGTH.min} to ${IDEMPOTENCY_KEY_LENGTH.max} visible ASCII characters, and no space.`
      : "";
  const body: PaymentRequiredWire = {
    version: "1",
    x402Version: 1,
    error: refusal.code,
    ...(refusal.reason === undefined ? {} : { reason: refusal.reason }),
    message: `${refusal.message}${ignored}`,
    accepts,
    ...(plans.length > 0 ? { plans: plans.map(({ plan }) => planTermsOf(settings, plan, presentation)) } : {}),
  };
  const offered = plans.map(({ plan }) => plan);
  const header = presentation.x402v2 ? headerV2Of(input, { entries, sellsSingly, plans: offered }) : undefined;
  return {
    body,
    text: JSON.stringify(body),
    sold: entries.map(({ offer }) => offer),
    memos: entries.map(({ memo }) => memo),
    headerV2: header?.value,
    cuts: header?.cuts ?? [],
  };
}

/**
 * Stock clients of version 1 refuse a body with any scheme but `exact`, and know one method: other entries, like those of
 * plans, are in the body only where they are alone.
 */
function entriesOfBody(entries: readonly Entry[]): readonly Entry[] {
  const payable = entries.filter(({ offer }) => methodOf(offer).isOfVersion1);
  return payable.length > 0 ? payable : entries;
}

interface EntryFacts {
  readonly memo: string;
  /** whether one transfer buys one request; false: the entry can only be subscribed to */
  readonly sellsSingly: boolean;
  readonly firstPlan: Extract<Offer, { kind: "subscription" }> | undefined;
}

function entryOf(
  { resource, presentation, flow }: QuoteRequest,
  offer: Offer,
  { memo, sellsSingly, firstPlan }: EntryFacts,
): AcceptEntryWire {
  const { token, payTo, context } = offer;
  const { settings } = context;
  const amount = offer.amount.toString();
  const facilitator = settings.facilitator?.url ?? "";
  const isPlan = offer.kind === "subscription";
  const named = isPlan ? offer : planBeside(offer, firstPlan);
  return {
    scheme: sellsSingly ? schemeOf(offer) : SUBSCRIPTION_SCHEME,
    network: settings.networkText,
    token: token.address,
    amount,
    payTo,
    memo,
    hoodlayer: named ? { facilitator, planId: named.plan.planId, subscriptionScheme: true } : { facilitator },
    maxAmountRequired: amount,
    asset: token.address,
    resource,
    description: presentation.description,
    mimeType: presentation.mimeType,
    maxTimeoutSeconds: MAX_TIMEOUT_SEC,
    // Without the token's domain nothing can be signed.
    extra: {
      ...(sellsSingly ? { name: token.name, version: token.version, ...wayOf(offer, flow) } : {}),
      ...(isPlan ? { kind: "subscription" } : {}),
    },
  };
}

type PlanOffer = EntryFacts["firstPlan"];

/**
 * At the plan's own price an entry names no plan: agents would take it for the plan itself. Nor does an entry of another
 * network or Facilitator, which could not sign them up.
 */
const planBeside = ({ amount, context }: Offer, plan: PlanOffer): PlanOffer =>
  plan?.amount === amount || plan?.context !== context ? undefined : plan;

function planTermsOf(settings: Settings, plan: Plan, presentation: Presentation): PlanTermsWire {
  return {
    planId: plan.planId,
    amount: plan.amount.toString(),
    interval: plan.intervalSec,
    ...(plan.months > 0 && { period: periodOf(plan) }),
    grace: plan.graceSec,
    token: plan.token,
    network: settings.networkText,
    payTo: plan.payTo,
    metered: presentation.metered,
  };
}
