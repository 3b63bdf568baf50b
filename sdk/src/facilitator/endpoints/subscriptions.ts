/** Endpoints of subscriptions, of plans, and of the accounts that sign for them. */
import * as z from "zod";
import { addressSchema, type ErrorCode, hash32Schema } from "../../protocol";
import { pendingSchema } from "../payments";
import {
  accountSchema,
  CHANGE_REQUESTS,
  type ChangeAct,
  changeQuoteSchema,
  changeResponseSchema,
  permitRequestSchema,
  permitResponseSchema,
  planListSchema,
  planSchema,
  subscribeRequestSchema,
  subscriptionListSchema,
  subscriptionSchema,
  voidRequestSchema,
} from "../subscriptions";
import { endpoints, get, PAGED, page, post } from "./endpoint";

const SIGNED =
  "A call without the subscriber's signature is refused. A 202 has no outcome yet: send the same body again.";

const byIdHash = z.object({ idHash: hash32Schema });

const byAddress = z.object({ address: addressSchema });

const ofSubscription = { idHash: "subscription" } as const;

const outcome = { 200: changeResponseSchema, 202: pendingSchema };

const OTHER_PLAN = ["UnknownPlan", "PlanMismatch", "PlanDeprecated", "PlanStopped"] as const;

const signedAct = <A extends ChangeAct>(act: A, id: string, text: string, ...errors: ErrorCode[]) =>
  ({
    id,
    tag: "subscriptions",
    method: "post",
    path: `/subscriptions/{idHash}/${act}`,
    text: `${text} ${SIGNED}`,
    params: byIdHash,
    body: CHANGE_REQUESTS[act],
    answers: outcome,
    errors: ["UnknownSubscription", "InvalidSignature", "SignatureExpired", ...errors],
    objects: ofSubscription,
  }) as const;

/** Subscriptions: signing up, and looking them up. */
export const SUBSCRIPTION_ENDPOINTS = endpoints("subscriptions", {
  createSubscription: {
    ...post("/subscriptions"),
    text: `Signs a subscriber up to a plan and collects the first period in one transaction. ${SIGNED}`,
    body: subscribeRequestSchema,
    answers: outcome,
    errors: [
      "UnknownPlan",
      "IdHashUsed",
      "InsufficientFunds",
      "PermitTooLow",
      "PlanDeprecated",
      "PlanStopped",
      "InvalidSignature",
      "InvalidVoucher",
      "UntilReached",
    ],
  },
  voidSignup: {
    ...post("/subscriptions/void"),
    text: `Voids a signup that was signed for a secret and is not used: it can never be submitted afterwards. ${SIGNED}`,
    body: voidRequestSchema,
    answers: outcome,
    errors: ["IdHashUsed", "InsufficientFunds", "InvalidSignature"],
    chain: "named",
  },
  getSubscription: {
    ...get("/subscriptions/{idHash}"),
    text: "Returns a subscription's status, its paid period and its allowance, by its public hash. The secret id never leaves the subscriber and the gate.",
    params: byIdHash,
    answers: { 200: subscriptionSchema },
    errors: ["UnknownSubscription"],
    objects: ofSubscription,
  },
  quotePlanChange: {
    ...get("/subscriptions/{idHash}/quote"),
    text: "Returns the price, the credit for unused time and the charge of a change to another plan, at this moment. Sign `maxCharge` from it.",
    params: byIdHash,
    query: z.object({ newPlanId: hash32Schema }),
    answers: { 200: changeQuoteSchema },
    errors: ["UnknownSubscription", ...OTHER_PLAN, "CreditExceedsPrice"],
    objects: ofSubscription,
  },
});

/** The signed changes of a subscription, by act. */
export const CHANGE_ENDPOINTS = {
  pause: signedAct("pause", "pauseSubscription", "Pauses a subscription."),
  resume: signedAct(
    "resume",
    "resumeSubscription",
    "Resumes a paused or expired subscription, and charges at most `maxCharge` where a new period begins.",
    ...(["NothingToResume", "PlanDeprecated", "PlanStopped", "ChargeAboveMax", "InsufficientFunds"] as const),
  ),
  cancel: signedAct(
    "cancel",
    "cancelSubscription",
    "Cancels a subscription, at once or at the end of its paid period.",
  ),
  "max-overage": signedAct("max-overage", "setMaxOverage", "Sets the cap of metered overage per cycle."),
  next: signedAct(
    "next",
    "setNext",
    "Sets the end of a subscription, and the plan that its next charged period changes to. Each replaces what was set. A due renewal is collected first.",
    ...([...OTHER_PLAN, "TermsDiffer", "UntilReached", "Ending"] as const),
  ),
  plan: signedAct(
    "plan",
    "changePlan",
    "Moves a subscription to another plan of the same provider. A due renewal is collected first.",
    ...([...OTHER_PLAN, "ChargeAboveMax", "Ending", "UntilReached"] as const),
  ),
  rekey: signedAct(
    "rekey",
    "rekeySubscription",
    "Moves a subscription to a fresh secret after its id leaked.",
    "IdHashUsed",
  ),
};

/** What a wallet has, and has to approve. */
export const ACCOUNT_ENDPOINTS = endpoints("accounts", {
  getAccount: {
    ...get("/accounts/{address}"),
    text: "Returns an account's balance, its token approval for Turnpike or another spender, and its permit nonce, read from the chain.",
    params: byAddress,
    query: z.object({ token: addressSchema, /** default: Turnpike */ spender: addressSchema.optional() }),
    answers: { 200: accountSchema },
    errors: ["PaymentNotAllowed"],
  },
  listAccountSubscriptions: {
    ...get("/accounts/{address}/subscriptions"),
    text: `Lists an account's subscriptions, newest first. ${PAGED}`,
    params: byAddress,
    query: z.object({
      cursor: z
        .string()
        .regex(/^[0-9]{1,12}\.0x[0-9a-f]{64}$/, "must be a cursor that an earlier page returned")
        .optional(),
      limit: z
        .string()
        .regex(/^(?:[1-9][0-9]?|100)$/, "must be a whole number from 1 to 100")
        .default("100")
        .transform(Number),
    }),
    answers: { 200: subscriptionListSchema },
  },
  submitPermit: {
    ...post("/permits"),
    text: "Submits an EIP-2612 permit for Turnpike to the token. A repetition of an applied permit succeeds.",
    body: permitRequestSchema,
    answers: { 200: permitResponseSchema, 202: pendingSchema },
    errors: ["InvalidSignature", "PaymentNotAllowed"],
  },
});

/** Plans that are sold. */
export const PLAN_ENDPOINTS = endpoints("plans", {
  listPlans: {
    ...get("/plans"),
    text: `Lists plans in the order of their creation. ${PAGED}`,
    query: z.object({ provider: addressSchema.optional(), ...page }),
    answers: { 200: planListSchema },
  },
  getPlan: {
    ...get("/plans/{planId}"),
    text: "Returns the terms of one plan, and whether it is deprecated or stopped.",
    params: z.object({ planId: hash32Schema }),
    answers: { 200: planSchema },
    errors: ["UnknownPlan"],
    objects: { planId: "plan" },
  },
});
