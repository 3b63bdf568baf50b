/** Webhook endpoints of a provider: where events are sent, the secret that signs them, and their deliveries. */
import { WEBHOOK_ENDPOINTS } from "turnpike/facilitator";
import { type Endpoint, ok, routes } from "../endpoint";
import type { ApiServices } from "../services";

export function webhookEndpoints(services: ApiServices): Endpoint[] {
  const { endpoints, deliveries } = services.providers;
  return routes(services, WEBHOOK_ENDPOINTS, {
    listWebhookEndpoints: async ({ caller }) => ok({ endpoints: await endpoints.list(caller) }),
    createWebhookEndpoint: async ({ caller, body }) => ({ status: 201, body: await endpoints.create(caller, body) }),
    getWebhookEndpoint: async ({ caller, params: { id } }) => ok(await endpoints.get(caller, id)),
    updateWebhookEndpoint: async ({ caller, params: { id }, body }) => ok(await endpoints.update(caller, id, body)),
    async deleteWebhookEndpoint({ caller, params: { id } }) {
      await endpoints.remove(caller, id);
      return ok({ deleted: true as const });
    },
    rotateWebhookSecret: async ({ caller, params: { id }, body }) =>
      ok(await endpoints.rotateSecret(caller, id, body.overlapSec)),
    async listDeliveries({ caller, params: { id }, query: { cursor, ...query } }) {
      return ok(await deliveries.list(caller, id, { before: cursor, ...query }));
    },
    async getDelivery({ caller, params: { id, eventId } }) {
      return ok(await deliveries.find(caller, id, eventId));
    },
    async resendDelivery({ caller, params: { id, eventId } }) {
      await endpoints.resend(caller, id, eventId);
      return { status: 202, body: { eventId, state: "pending" as const } };
    },
    async testWebhookEndpoint({ caller, params: { id } }) {
      return { status: 202, body: { eventId: await endpoints.sendTest(caller, id), state: "pending" as const } };
    },
  });
}
