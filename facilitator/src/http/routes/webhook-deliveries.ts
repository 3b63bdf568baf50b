import { deliveryDetailSchema, deliveryListSchema } from "turnpike/facilitator";
import { hash32Schema } from "turnpike/protocol";
import { z } from "zod";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import { cursorSchema, limitSchema } from "../page";
import type { ApiServices } from "../services";
import { endpointIdSchema } from "./webhook-endpoints";

const queuedSchema = z.object({
  eventId: hash32Schema,
  state: z.literal("pending"),
});

export function deliveryEndpoints(services: ApiServices): Endpoint[] {
  const { endpoints, deliveries } = services.providers;
  const admission = admissionTo(services, "webhooks", { isShared: true });
  const ofEndpoint = z.object({ id: endpointIdSchema });
  const ofEvent = z.object({ id: endpointIdSchema, eventId: hash32Schema });
  const nothing = z.object({});
  const tag = "webhooks";
  return [
    endpoint({
      method: "get",
      path: "/webhook-endpoints/{id}/deliveries",
      tag,
      summary: "Deliveries to an endpoint, the newest first.",
      admission,
      params: ofEndpoint,
      query: z.object({ cursor: cursorSchema, limit: limitSchema }),
      answers: { 200: deliveryListSchema },
      async handle({ caller, params: { id }, query: { cursor, limit } }) {
        return { status: 200, body: await deliveries.list(caller, id, { before: cursor, limit }) };
      },
    }),
    endpoint({
      method: "get",
      path: "/webhook-endpoints/{id}/deliveries/{eventId}",
      tag,
      summary: "One delivery with every attempt.",
      admission,
      params: ofEvent,
      answers: { 200: deliveryDetailSchema },
      async handle({ caller, params: { id, eventId } }) {
        return { status: 200, body: await deliveries.find(caller, id, eventId) };
      },
    }),
    endpoint({
      method: "post",
      path: "/webhook-endpoints/{id}/deliveries/{eventId}/resend",
      tag,
      summary: "Send an event of the provider's to the endpoint, again or for the first time.",
      admission,
      params: ofEvent,
      body: nothing,
      answers: { 202: queuedSchema },
      async handle({ caller, params: { id, eventId } }) {
        await endpoints.resend(caller, id, eventId);
        return { status: 202, body: { eventId, state: "pending" as const } };
      },
    }),
    endpoint({
      method: "post",
      path: "/webhook-endpoints/{id}/test",
      tag,
      summary: "Send an event of the type `webhook.test` to the endpoint.",
      admission,
      params: ofEndpoint,
      body: nothing,
      answers: { 202: queuedSchema },
      async handle({ caller, params: { id } }) {
        return { status: 202, body: { eventId: await endpoints.sendTest(caller, id), state: "pending" as const } };
      },
    }),
  ];
}
