/** Builds the 402 body of x402 version 1 and of this project, beside the header that clients of version 2 read. */
import type { Plan } from "../../../chain/plans";
import {
  type AcceptEntryWire,
  IDEMPOTENCY_KEY_LENGTH,
  type PaymentRequiredWire,
  type PlanTermsWire,
  periodOf,
  SUBSCRIPTION_SCHEME,
} from "../../../protocol";
import { MAX_TIMEOUT_SEC, methodOf, type Offer, type Presentation, schemeOf, wayOf } from "../../core/offers";
import { type Entry, isUsableKey, keyIn, type Quote, type QuoteRequest, soldBy } from "../../core/quote";
import type { Settings } from "../../core/settings";
import { headerV2Of } from "./quote-header";

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
