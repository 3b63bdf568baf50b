/** Webhook endpoints of a provider: where events are sent, and the secret that signs them. */
import {
  createEndpointRequestSchema,
  endpointListSchema,
  newEndpointSchema,
  rotatedSecretSchema,
  rotateSecretRequestSchema,
  updateEndpointRequestSchema,
  webhookEndpointSchema,
} from "turnpike/facilitator";
import { z } from "zod";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import type { ApiServices } from "../services";

export const endpointIdSchema = z.string().regex(/^we_[0-9a-f]{24}$/, "must be the id of a webhook endpoint");

export function webhookEndpoints(services: ApiServices): Endpoint[] {
  const { endpoints } = services.providers;
  const admission = admissionTo(services, "webhooks", { isShared: true });
  const params = z.object({ id: endpointIdSchema });
  const tag = "webhooks";
  return [
    endpoint({
      method: "get",
      path: "/webhook-endpoints",
      tag,
      summary: "The provider's webhook endpoints, without their secrets.",
      admission,
      answers: { 200: endpointListSchema },
      handle: async ({ caller }) => ({ status: 200, body: { endpoints: await endpoints.list(caller) } }),
    }),
    endpoint({
      method: "post",
      path: "/webhook-endpoints",
      tag,
      summary: "Create an endpoint that receives events. Its signing secret is shown once.",
      admission,
      body: createEndpointRequestSchema,
      answers: { 201: newEndpointSchema },
      handle: async ({ caller, body }) => ({ status: 201, body: await endpoints.create(caller, body) }),
    }),
    endpoint({
      method: "get",
      path: "/webhook-endpoints/{id}",
      tag,
      summary: "One webhook endpoint.",
      admission,
      params,
      answers: { 200: webhookEndpointSchema },
      handle: async ({ caller, params: { id } }) => ({ status: 200, body: await endpoints.get(caller, id) }),
    }),
    endpoint({
      method: "patch",
      path: "/webhook-endpoints/{id}",
      tag,
      summary: "Change an endpoint. Disabling it drops waiting deliveries; enabling it starts with the next event.",
      admission,
      params,
      body: updateEndpointRequestSchema,
      answers: { 200: webhookEndpointSchema },
      handle: async ({ caller, params: { id }, body }) => ({
        status: 200,
        body: await endpoints.update(caller, id, body),
      }),
    }),
    endpoint({
      method: "delete",
      path: "/webhook-endpoints/{id}",
      tag,
      summary: "Delete an endpoint with its deliveries.",
      admission,
      params,
      answers: { 200: z.object({ deleted: z.literal(true) }) },
      async handle({ caller, params: { id } }) {
        await endpoints.remove(caller, id);
        return { status: 200, body: { deleted: true as const } };
      },
    }),
    endpoint({
      method: "post",
      path: "/webhook-endpoints/{id}/rotate-secret",
      tag,
      summary: "A new secret; the old one signs beside it for `overlapSec`.",
      admission,
      params,
      body: rotateSecretRequestSchema,
      answers: { 200: rotatedSecretSchema },
      handle: async ({ caller, params: { id }, body }) => ({
        status: 200,
        body: await endpoints.rotateSecret(caller, id, body.overlapSec),
      }),
    }),
  ];
}
