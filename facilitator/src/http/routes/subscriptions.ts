/** Subscriptions: signed signup, signed changes, the record, and what a plan change would charge. */
import {
  CHANGE_ACTS,
  CHANGE_REQUESTS,
  type ChangeAct,
  type ChangeRequest,
  changeQuoteSchema,
  changeResponseSchema,
  pendingSchema,
  subscribeRequestSchema,
  subscriptionSchema,
  voidRequestSchema,
} from "turnpike/facilitator";
import { type Hex, hash32Schema, idHashOf } from "turnpike/protocol";
import { z } from "zod";
import type { ActOutcome } from "../../subscriptions";
import { type Endpoint, endpoint } from "../endpoint";
import { requireOwnNetwork } from "../request";
import type { ApiServices } from "../services";

const RETRY_AFTER = { "retry-after": "1" };

const byIdHash = z.object({ idHash: hash32Schema });

const SUMMARIES: Readonly<Record<ChangeAct, string>> = {
  pause: "Stop serving until resumed. The clock of the paid period goes on.",
  resume: "Serve again; charges at most `maxCharge` where a new period begins.",
  cancel: "End it, now or at the end of the paid period.",
  "max-overage": "Set the cap of metered overage per cycle.",
  next: "Set the end of the subscription, and the plan of its next charged period.",
  plan: "Change to another plan of the same provider; a due renewal is collected first.",
  rekey: "Move to a fresh secret, after the old id leaked.",
};

export function subscriptionEndpoints({
  subscriptions,
  authorizeWaitMs: waitMs,
  network,
  untilDraining,
}: ApiServices): Endpoint[] {
  return [
    endpoint({
      method: "post",
      path: "/subscriptions",
      tag: "subscriptions",
      summary: "Sign up and pay the first period, in one transaction. Safe to repeat.",
      body: subscribeRequestSchema,
      answers: { 200: changeResponseSchema, 202: pendingSchema },
      async handle({ body }) {
        requireOwnNetwork(body.network, network);
        const idHash = idHashOf(body.subscriber, body.secretHash);
        return answerOf(await untilDraining(subscriptions.subscribe(body, { waitMs })), idHash);
      },
    }),
    endpoint({
      method: "post",
      path: "/subscriptions/void",
      tag: "subscriptions",
      summary: "Void a signup that was signed and not used. Safe to repeat.",
      body: voidRequestSchema,
      answers: { 200: changeResponseSchema, 202: pendingSchema },
      async handle({ body }) {
        requireOwnNetwork(body.network, network);
        const idHash = idHashOf(body.subscriber, body.secretHash);
        return answerOf(await untilDraining(subscriptions.void(body, { waitMs })), idHash);
      },
    }),
    endpoint({
      method: "get",
      path: "/subscriptions/{idHash}",
      tag: "subscriptions",
      summary: "A subscription's current status.",
      params: byIdHash,
      answers: { 200: subscriptionSchema },
      handle: async ({ params }) => ({ status: 200, body: await subscriptions.get(params.idHash) }),
    }),
    endpoint({
      method: "get",
      path: "/subscriptions/{idHash}/quote",
      tag: "subscriptions",
      summary: "What changing to another plan would charge now.",
      params: byIdHash,
      query: z.object({ newPlanId: hash32Schema }),
      answers: { 200: changeQuoteSchema },
      async handle({ params, query }) {
        const { charge, credit, ...rest } = await subscriptions.quote(params.idHash, query.newPlanId);
        return { status: 200, body: { ...rest, charge: charge.toString(), credit: credit.toString() } };
      },
    }),
    ...CHANGE_ACTS.map((act) => changeEndpoint(act)),
  ];

  function changeEndpoint<A extends ChangeAct>(act: A): Endpoint {
    return endpoint({
      method: "post",
      path: `/subscriptions/{idHash}/${act}`,
      tag: "subscriptions",
      summary: SUMMARIES[act],
      params: byIdHash,
      body: CHANGE_REQUESTS[act],
      answers: { 200: changeResponseSchema, 202: pendingSchema },
      async handle({ params, body }) {
        const request = body as ChangeRequest<A>;
        const { idHash } = params;
        return answerOf(await untilDraining(subscriptions.change(act, idHash, request, { waitMs })), idHash);
      },
    });
  }
}

function answerOf(outcome: ActOutcome | "draining", idHash: Hex) {
  return outcome !== "draining" && outcome.kind === "done"
    ? { status: 200 as const, body: outcome.change }
    : { status: 202 as const, body: { status: "pending" as const, id: idHash }, headers: RETRY_AFTER };
}
