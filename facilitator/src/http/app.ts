/**
 * Builds the HTTP API: routes, limits, CORS, request ids, one log line per request. It acts through services and knows
 * no chain and no database.
 */
import { randomUUID } from "node:crypto";
import { OpenAPIHono } from "@hono/zod-openapi";
import type { Context, Next } from "hono";
import { METHOD_NAME_ALL } from "hono/router";
import { WEBHOOK_EVENT_TYPES, webhookEventSchemaOf } from "turnpike/facilitator";
import { CORS_ALLOW_HEADERS, TurnpikeError } from "turnpike/protocol";
import { z } from "zod";
import { serveDashboard } from "./dashboard";
import { createDirectRoutes, type DirectRoutes, directsOf } from "./direct-routes";
import type { Direct, Endpoint } from "./endpoint";
import { sendError } from "./errors";
import { liveEvents } from "./live";
import { API_KEY_SCHEME, completeDocument } from "./openapi";
import { answerMetrics } from "./probes";
import { addressOf, type RequestScope } from "./request";
import { createObserver, OPEN_HEADERS } from "./response-observer";
import { accountEndpoints, planEndpoints } from "./routes/accounts";
import { analyticsEndpoints } from "./routes/analytics";
import { debitEndpoints, eventEndpoints, reportEndpoints } from "./routes/debits";
import { discoveryEndpoints } from "./routes/discovery";
import { figureEndpoints } from "./routes/figures";
import { keyEndpoints, labelEndpoints } from "./routes/keys";
import { operatorFigureEndpoints } from "./routes/operator-figures";
import { payerEndpoints } from "./routes/payer";
import { paymentEndpoints } from "./routes/payments";
import { recordEndpoints } from "./routes/records";
import { refundEndpoints } from "./routes/refunds";
import { sandboxEndpoints } from "./routes/sandbox";
import { serviceEndpoints } from "./routes/service";
import { subscriptionEndpoints } from "./routes/subscriptions";
import { webhookEndpoints } from "./routes/webhooks";
import { x402Endpoints } from "./routes/x402";
import type { ApiServices } from "./services";

export const DOCUMENT_INFO = { title: "Turnpike Facilitator", version: "1" };

export function endpointsOf(services: ApiServices): Endpoint[] {
  return [
    paymentEndpoints,
    refundEndpoints,
    subscriptionEndpoints,
    accountEndpoints,
    planEndpoints,
    x402Endpoints,
    keyEndpoints,
    labelEndpoints,
    eventEndpoints,
    debitEndpoints,
    webhookEndpoints,
    discoveryEndpoints,
    analyticsEndpoints,
    figureEndpoints,
    payerEndpoints,
    recordEndpoints,
    reportEndpoints,
    operatorFigureEndpoints,
    serviceEndpoints,
    sandboxEndpoints,
  ].flatMap((endpoints) => endpoints(services));
}

export interface Api {
  readonly app: OpenAPIHono<RequestScope>;
  /** called by the server first */
  readonly directRoutes: DirectRoutes;
  /** by path: what are served directly */
  readonly directs: ReadonlyMap<string, Direct>;
}

export function createApi(services: ApiServices): Api {
  const endpoints = endpointsOf(services);
  const directs = directsOf(endpoints);
  return { app: createApp(services, endpoints), directRoutes: createDirectRoutes(services, directs), directs };
}

export function createApp(services: ApiServices, endpoints = endpointsOf(services)): OpenAPIHono<RequestScope> {
  const { metrics, rateLimit } = services;
  const app = new OpenAPIHono<RequestScope>();
  app.use(observed(services));
  app.use(open(app));
  app.use(async (context, next) => {
    if (!/^(?:GET|HEAD)$/.test(context.req.method)) rateLimit.take(addressOf(context));
    await next();
  });

  for (const each of endpoints) each.mount(app);

  app.openAPIRegistry.registerComponent("securitySchemes", API_KEY_SCHEME, { type: "http", scheme: "bearer" });
  describeWebhooks(app);
  let document: object | undefined;
  app.get("/openapi.json", (context) => {
    // Made for the first who asks: it takes as long as a start.
    document ??= completeDocument(app.getOpenAPI31Document({ openapi: "3.1.0", info: DOCUMENT_INFO }), endpoints);
    return context.json(document);
  });
  if (services.servesMetrics) app.get("/metrics", answerMetrics(metrics));
  app.get("/events/live", liveEvents(services));
  serveDashboard(app, { isSandbox: services.sandbox !== undefined, plainPage: () => frontPage(services, endpoints) });

  app.notFound((context) => {
    const allow = methodsOf(app, context.req.path);
    return sendError(
      context,
      allow ? new TurnpikeError("MethodNotAllowed", undefined, { details: { allow } }) : new TurnpikeError("NotFound"),
    );
  });
  app.onError((error, context) => sendError(context, error));
  return app;
}

/** Every response gets a request id and is observed. */
function observed(services: ApiServices) {
  const observe = createObserver(services);
  return async (context: Context<RequestScope>, next: Next): Promise<void> => {
    const requestId = randomUUID();
    const startedMs = services.monotonicMs();
    const trace = services.tracing?.begin({ method: context.req.method, header: (name) => context.req.header(name) });
    if (trace) context.set("trace", trace);
    context.set("requestId", requestId);
    context.set("brokeOff", (error) =>
      services.log.error({ requestId, route: context.get("route"), error }, "answer broke off"),
    );
    context.set("untilEnd", services.untilEnd);
    // Set before the response is created: afterwards each header would create another response.
    context.header("x-request-id", requestId);
    context.header("cache-control", "no-store");
    await (trace ? trace.run(next) : next());
    const { method } = context.req;
    const { status } = context.res;
    const route = context.get("route") ?? context.req.routePath ?? "other";
    const { failure, paymentId } = context.var;
    observe({ requestId, method, route, status, startedMs, failure, paymentId, trace });
  };
}

/** The API is open to every origin: it uses no cookie, and no credential that a browser sends by itself. */
function open(app: OpenAPIHono<RequestScope>) {
  return async (context: Context, next: Next): Promise<Response | undefined> => {
    if (context.req.method === "OPTIONS") {
      const allow = methodsOf(app, context.req.path);
      return context.body(null, 204, {
        ...(allow && { allow }),
        "access-control-allow-origin": "*",
        "access-control-allow-methods": METHODS.join(", "),
        "access-control-allow-headers": `${CORS_ALLOW_HEADERS}, Authorization`,
        "access-control-max-age": "600",
      });
    }
    for (const [name, value] of Object.entries(OPEN_HEADERS)) context.header(name, value);
    await next();
    return undefined;
  };
}

const METHODS = ["GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS"];

/** Returns the methods of a route, for the header Allow; undefined where there is no route. */
function methodsOf({ router }: OpenAPIHono<RequestScope>, path: string): string | undefined {
  const isRouted = (method: string): boolean =>
    router.match(method, path)[0].some(([[, route]]) => route.method !== METHOD_NAME_ALL);
  const routed = METHODS.filter((method) => isRouted(method === "HEAD" ? "GET" : method));
  return routed.length === 0 ? undefined : [...routed, "OPTIONS"].join(", ");
}

/**
 * Renders the page at `/` for people: which service this is and what it serves. Static except for its configuration.
 */
export function frontPage({ network, supported, servesMetrics }: ApiServices, endpoints: readonly Endpoint[]): string {
  const rows = endpoints.map(({ method, path }) => `<li><code>${method.toUpperCase()} ${path}</code></li>`).join("\n");
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Turnpike Facilitator</title>
<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui;max-width:44rem;margin:2rem auto;padding:0 1rem}</style>
<h1>Turnpike Facilitator</h1>
<p>Settles payments and collects subscriptions on <strong>${network.name}</strong> (chain ${network.chainId}),
contract <code>${supported.turnpike}</code>.</p>
<ul>
${rows}
<li><code>GET <a href="/openapi.json">/openapi.json</a></code></li>
${servesMetrics ? '<li><code>GET <a href="/metrics">/metrics</a></code></li>\n' : ""}</ul>
</html>
`;
}

const headers = z.object({
  "webhook-id": z.string().describe("the event's id: the same at every attempt"),
  "webhook-timestamp": z.string().describe("unix seconds of this attempt"),
  "webhook-signature": z.string().describe("v1 signatures, separated by spaces: one for each live secret"),
  "webhook-attempt": z.string().describe("counts from 1"),
});

/** Adds the webhooks to openapi.json, from the same schemas that receivers verify with. */
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
