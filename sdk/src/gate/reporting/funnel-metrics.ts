/** Counts a gate's decisions by step: asked to pay, refused (and why), paid, served. Reads decisions, changes none. */
import { createFacilitatorClient } from "../../facilitator/client";
import { ConfigError, caip2Of, isPlanEntry, isTurnpikeError } from "../../protocol";
import type { Decision } from "../core/answer";
import type { GateReports } from "../core/context";
import type { ProviderOptions } from "../core/options";
import type { Payment } from "../core/payment";
import type { GateRequest } from "../core/request";
import type { Settings } from "../core/settings";
import { createReporter, type Observation, type Reporter, sendTo } from "./reporter";

/** Creates the counter of decisions; undefined where no key for it is configured. @throws ConfigError */
export function reportsOf(
  { reports, fetch }: ProviderOptions,
  settings: Settings,
  clock: { nowSec(): number },
): GateReports | undefined {
  if (!reports) return undefined;
  if (!settings.facilitator) throw new ConfigError("reports need a facilitator (TURNPIKE_FACILITATOR_URL)");
  const { apiKey } = reports;
  if (!/^tpk_[0-9a-f]{16}_[A-Za-z0-9_-]{43}$/.test(apiKey))
    throw new ConfigError("reports.apiKey is no API key of a Facilitator (TURNPIKE_REPORTS_KEY)");
  const client = createFacilitatorClient({ url: settings.facilitator.url, apiKey, ...(fetch ? { fetch } : {}) });
  const send = sendTo(client, caip2Of(settings.network.chainId));
  return countRequests(createReporter({ send, nowSec: () => clock.nowSec() }));
}

export function countRequests(reporter: Reporter): GateReports {
  return {
    decided(decision, request) {
      // A replay sells nothing and was counted with the request that it repeats.
      if (decision.kind === "preflight" || (decision.kind === "replay" && !decision.settled)) return undefined;
      const resource = resourceTemplateOf(request);
      if (decision.kind === "replay") {
        for (const step of ["paid", "served"] as const) reporter.count({ step, resource, ...soldBy(decision.settled) });
        return undefined;
      }
      if (decision.kind !== "allow") {
        reporter.count({ ...refusalOf(decision), resource });
        return undefined;
      }
      const { payment } = decision;
      if (payment.kind === "free") return undefined;
      const step = payment.kind === "subscription" ? "subscribed" : "paid";
      if (!decision.deferred) reporter.count({ step, resource, ...soldBy(payment) });
      return (how) => {
        // Read now: the handler may have charged less than its payer permitted.
        const sold = soldBy(payment);
        if (decision.deferred && how === "use") reporter.count({ step, resource, ...sold });
        reporter.count({ step: how === "use" ? "served" : "failed", resource, ...sold });
      };
    },
    refusedCharge(decision, request, error) {
      const resource = resourceTemplateOf(request);
      const refusal = decision?.kind === "pay" ? refusalOf(decision) : turnedAway(error);
      reporter.count({ ...refusal, resource });
    },
    failed: (error, request) => reporter.count({ ...turnedAway(error), resource: resourceTemplateOf(request) }),
    flush: () => reporter.flush(),
    close: () => reporter.close(),
  };
}

function soldBy(payment: Payment | undefined): Pick<Observation, "offer" | "token" | "amount"> {
  if (payment?.kind !== "one-time") return { offer: "subscription" };
  return { offer: "one-time", token: payment.token, amount: payment.amount };
}

type Refusal = Omit<Observation, "resource">;

function refusalOf(decision: Exclude<Decision, { kind: "allow" | "preflight" | "replay" }>): Refusal {
  if (decision.kind !== "pay") return turnedAway(decision.kind === "refuse" ? decision.error : decision.cause);
  const { accepts, error, reason } = decision.quote.body;
  const first = accepts[0];
  const isSubscription = first !== undefined && isPlanEntry(first);
  return {
    step: error === "PaymentRequired" ? "asked" : "refused",
    cause: causeText(error, reason),
    offer: isSubscription ? "subscription" : "one-time",
    ...(first?.token && first.amount && { token: first.token, amount: BigInt(first.amount) }),
  };
}

const turnedAway = (error: unknown): Refusal => ({
  step: "turned_away",
  cause: isTurnpikeError(error) ? causeText(error.code, error.reason) : "Internal",
});

/** Returns the error's code, with its reason where that is a plain identifier; free text is left out. */
function causeText(code: string | undefined, reason?: string): string {
  if (code === undefined) return "Internal";
  return reason !== undefined && /^[A-Za-z0-9_]{1,40}$/.test(reason) ? `${code}/${reason}` : code;
}

const MAX_LENGTH = 128;

/** Matches a path segment that looks like an id rather than a part of the route. */
const ID_SEGMENT = /^(?:\d+|0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|(?=.*\d)[\w~.=%-]{16,}|.{33,})$/i;

/**
 * Returns the framework's route pattern where it has one; otherwise the path, with `:id` for each segment that looks
 * like an id.
 */
export function resourceTemplateOf({ raw, target }: GateRequest): string {
  const pattern = patternOf(raw as Framework);
  const path = pattern ?? (target.split(/[?#]/, 1)[0] ?? "/").split("/").map(segmentOf).join("/");
  const plain = path.startsWith("/") ? path : `/${path}`;
  return plain.length <= MAX_LENGTH && /^[!"$-;=@-~]*$/.test(plain) ? plain : "*";
}

const segmentOf = (segment: string): string => (ID_SEGMENT.test(segment) ? ":id" : segment);

interface Framework {
  readonly baseUrl?: unknown;
  readonly route?: { readonly path?: unknown };
  readonly routeOptions?: { readonly url?: unknown };
}

/** Express and Fastify; only a pattern of text says more than the path. */
function patternOf({ baseUrl, route, routeOptions }: Framework): string | undefined {
  if (typeof routeOptions?.url === "string") return routeOptions.url;
  if (typeof route?.path === "string") return `${typeof baseUrl === "string" ? baseUrl : ""}${route.path}`;
  return undefined;
}
