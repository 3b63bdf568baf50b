/** The webhooks in openapi.json, from the same schemas that receivers verify with. */
import type { OpenAPIHono } from "@hono/zod-openapi";
import { WEBHOOK_EVENT_TYPES, webhookEventSchemaOf } from "turnpike/facilitator";
import { z } from "zod";
import type { RequestScope } from "./scope";

const headers = z.object({
  "webhook-id": z.string().describe("the event's id: the same at every attempt"),
  "webhook-timestamp": z.string().describe("unix seconds of this attempt"),
  "webhook-signature": z.string().describe("v1 signatures, separated by spaces: one for each live secret"),
  "webhook-attempt": z.string().describe("counts from 1"),
});

export function describeWebhooks(app: OpenAPIHono<RequestScope>): void {
  for (const type of WEBHOOK_EVENT_TYPES) {
    app.openAPIRegistry.registerWebhook({
      method: "post",
      path: type,
      summary: `Sent to endpoints that want ${type}.`,
      request: {
        headers,
        body: { required: true, content: { "application/json": { schema: webhookEventSchemaOf(type) } } },
      },
      responses: { "2XX": { description: "received" }, 410: { description: "send nothing any more" } },
    });
  }
}
