/** Subscriptions: signed signup, signed changes, the record, and what a plan change would charge. */
import { CHANGE_ACTS, CHANGE_ENDPOINTS, type ChangeAct, SUBSCRIPTION_ENDPOINTS } from "turnpike/facilitator";
import { type Hex, idHashOf } from "turnpike/protocol";
import type { ActOutcome } from "../../subscriptions";
import { type Call, type Endpoint, type Handlers, ok, routes } from "../endpoint";
import { requireOwnNetwork } from "../request";
import type { ApiServices } from "../services";

const RETRY_AFTER = { "retry-after": "1" };

export function subscriptionEndpoints(services: ApiServices): Endpoint[] {
  const { subscriptions, authorizeWaitMs: waitMs, network, untilDraining } = services;
  const changeOf =
    (act: ChangeAct) =>
    async ({ params: { idHash }, body }: Call<(typeof CHANGE_ENDPOINTS)[ChangeAct]>) =>
      answerOf(await untilDraining(subscriptions.change(act, idHash, body, { waitMs })), idHash);
  const changes = Object.fromEntries(CHANGE_ACTS.map((act) => [act, changeOf(act)]));
  const records = routes(services, SUBSCRIPTION_ENDPOINTS, {
    async createSubscription({ body }) {
      requireOwnNetwork(body.network, network);
      const idHash = idHashOf(body.subscriber, body.secretHash);
      return answerOf(await untilDraining(subscriptions.subscribe(body, { waitMs })), idHash);
    },
    async voidSignup({ body }) {
      requireOwnNetwork(body.network, network);
      const idHash = idHashOf(body.subscriber, body.secretHash);
      return answerOf(await untilDraining(subscriptions.void(body, { waitMs })), idHash);
    },
    getSubscription: async ({ params }) => ok(await subscriptions.get(params.idHash)),
    async quotePlanChange({ params, query }) {
      const { charge, credit, ...rest } = await subscriptions.quote(params.idHash, query.newPlanId);
      return ok({ ...rest, charge: charge.toString(), credit: credit.toString() });
    },
  });
  return [...records, ...routes(services, CHANGE_ENDPOINTS, changes as Handlers<typeof CHANGE_ENDPOINTS>)];
}

function answerOf(outcome: ActOutcome | "draining", idHash: Hex) {
  return outcome !== "draining" && outcome.kind === "done"
    ? ok(outcome.change)
    : { status: 202 as const, body: { status: "pending" as const, id: idHash }, headers: RETRY_AFTER };
}
