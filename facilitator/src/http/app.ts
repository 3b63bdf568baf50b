/**
 * The HTTP API: routes, limits, CORS, request ids, one log line per request. Knows doors to act through, no chain and no
 * database.
 */
import { randomUUID } from "node:crypto";
import { OpenAPIHono } from "@hono/zod-openapi";
import type { Context, Next } from "hono";
import type { Logger } from "pino";
import type { Readiness, SupportedWire, System } from "turnpike/facilitator";
import { CORS_ALLOW_HEADERS, type Network, TurnpikeError } from "turnpike/protocol";
import type { Analytics } from "../analytics";
import type { Costs } from "../costs";
import type { Metrics } from "../metrics";
import type { Payments } from "../payments";
import type { Providers } from "../providers";
import type { Reports } from "../reports";
import type { Sandbox } from "../sandbox";
import type { Subscriptions } from "../subscriptions";
import { serveDashboard } from "./dashboard";
import { API_KEY_SCHEME, addressOf, type Endpoint, tell } from "./endpoint";
import { createObserver, OPEN_HEADERS } from "./every-answer";
import { createFastLane, type FastLane } from "./fast-lane";
import { frontPage } from "./front-page";
import { liveEvents } from "./live";
import type { RateLimit } from "./rate-limit";
import { accountEndpoints } from "./routes/accounts";
import { analyticsEndpoints } from "./routes/analytics";
import { auditEndpoints } from "./routes/audit";
import { costEndpoints } from "./routes/costs";
import { debitEndpoints } from "./routes/debits";
import { eventEndpoints } from "./routes/events";
import { figureEndpoints } from "./routes/figures";
import { keyEndpoints } from "./routes/keys";
import { operatorEndpoints } from "./routes/operator";
import { operatorFigureEndpoints } from "./routes/operator-figures";
import { paymentEndpoints } from "./routes/payments";
import { planEndpoints } from "./routes/plans";
import { reportEndpoints } from "./routes/reports";
import { sandboxEndpoints } from "./routes/sandbox";
import { serviceEndpoints } from "./routes/service";
import { subscriptionEndpoints } from "./routes/subscriptions";
import { deliveryEndpoints } from "./routes/webhook-deliveries";
import { webhookEndpoints } from "./routes/webhook-endpoints";
import { x402Endpoints } from "./routes/x402";
import type { RequestScope } from "./scope";
import { describeWebhooks } from "./webhook-document";

/** Everything that the API acts through. */
export interface Doors {
  readonly network: Network;
  /** origin under which browsers reach this service */
  readonly publicUrl: string | undefined;
  /** only where this service runs as one */
  readonly sandbox?: Sandbox;
  readonly payments: Payments;
  readonly subscriptions: Subscriptions;
  readonly providers: Providers;
  readonly analytics: Analytics;
  readonly reports: Reports;
  readonly costs: Pick<Costs, "of">;
  /** Waits for news; a hint, and at the latest after the time. */
  happened(timeoutMs: number): Promise<unknown>;
  readonly supported: Omit<SupportedWire, "kinds" | "extensions" | "signers" | "network" | "chainId">;
  readiness(): Readiness;
  system(): Promise<System>;
  readonly metrics: Metrics;
  readonly log: Logger;
  /** by address */
  readonly rateLimit: RateLimit;
  /** by API key */
  readonly keyLimit: RateLimit;
  /** how long a request may be held while the chain confirms */
  readonly authorizeWaitMs: number;
  readonly monotonicMs: () => number;
  /** Waits for work that goes on without its caller, unless the service is stopping. */
  untilDraining<T>(work: Promise<T>): Promise<T | "draining">;
}

export const DOCUMENT_INFO = { title: "Turnpike Facilitator", version: "1" };

export function endpointsOf(doors: Doors): Endpoint[] {
  return [
    paymentEndpoints,
    subscriptionEndpoints,
    accountEndpoints,
    planEndpoints,
    x402Endpoints,
    keyEndpoints,
    eventEndpoints,
    debitEndpoints,
    webhookEndpoints,
    deliveryEndpoints,
    auditEndpoints,
    analyticsEndpoints,
    figureEndpoints,
    reportEndpoints,
    costEndpoints,
    operatorEndpoints,
    operatorFigureEndpoints,
    serviceEndpoints,
    sandboxEndpoints,
  ].flatMap((endpoints) => endpoints(doors));
}

export interface Api {
  readonly app: OpenAPIHono<RequestScope>;
  /** for the server to ask first */
  readonly fastLane: FastLane;
}

export function createApi(doors: Doors): Api {
  const endpoints = endpointsOf(doors);
  return { app: createApp(doors, endpoints), fastLane: createFastLane(doors, endpoints) };
}

export function createApp(doors: Doors, endpoints = endpointsOf(doors)): OpenAPIHono<RequestScope> {
  const { metrics, rateLimit } = doors;
  const app = new OpenAPIHono<RequestScope>();
  app.use(observed(doors));
  app.use(open);
  app.use(async (context, next) => {
    if (!/^(?:GET|HEAD)$/.test(context.req.method)) rateLimit.take(addressOf(context));
    await next();
  });

  for (const each of endpoints) each.mount(app);

  app.openAPIRegistry.registerComponent("securitySchemes", API_KEY_SCHEME, { type: "http", scheme: "bearer" });
  describeWebhooks(app);
  const document = app.getOpenAPI31Document({ openapi: "3.1.0", info: DOCUMENT_INFO });
  app.get("/openapi.json", (context) => context.json(document));
  app.get("/metrics", async (context) =>
    context.body(await metrics.text(), 200, { "content-type": metrics.contentType }),
  );
  app.get("/events/live", liveEvents(doors));
  serveDashboard(app, { isSandbox: doors.sandbox !== undefined, plainPage: () => frontPage(doors, endpoints) });

  app.notFound((context) => tell(context, new TurnpikeError("NotFound")));
  app.onError((error, context) => tell(context, error));
  return app;
}

/** A request id on every answer, and each is observed. */
function observed(doors: Doors) {
  const observe = createObserver(doors);
  return async (context: Context<RequestScope>, next: Next): Promise<void> => {
    const requestId = randomUUID();
    const startedMs = doors.monotonicMs();
    context.set("requestId", requestId);
    context.set("brokeOff", (error) =>
      doors.log.error({ requestId, route: context.get("route"), error }, "answer broke off"),
    );
    // Before the answer is made: afterwards each header would make another one of it.
    context.header("x-request-id", requestId);
    context.header("cache-control", "no-store");
    await next();
    const { method } = context.req;
    const { status } = context.res;
    const route = context.get("route") ?? context.req.routePath ?? "other";
    observe({ requestId, method, route, status, startedMs, failure: context.get("failure") });
  };
}

/** The API is for every origin: it takes no cookie, and no credential that a browser would send by itself. */
async function open(context: Context, next: Next): Promise<Response | undefined> {
  if (context.req.method === "OPTIONS") {
    return context.body(null, 204, {
      "access-control-allow-origin": "*",
      "access-control-allow-methods": "GET, POST, PATCH, DELETE, OPTIONS",
      "access-control-allow-headers": `${CORS_ALLOW_HEADERS}, Authorization`,
      "access-control-max-age": "600",
    });
  }
  for (const [name, value] of Object.entries(OPEN_HEADERS)) context.header(name, value);
  await next();
  return undefined;
}
