/** Makes one purchase over HTTP: requests, reads what the 402 offers, and has it paid for. */
import { HEADER, InvalidRequest, PolicyRefused, toAmount } from "../../protocol";
import { refuseMisspelled } from "../../protocol/arguments";
import type { AgentContext } from "../core/context";
import type { Amount } from "../core/policy-options";
import {
  bearsCredential,
  isRedirect,
  originAndPath,
  type RequestInput,
  type RequestTemplate,
  sendWithinOrigin,
  templateOf,
} from "../core/request";
import type { PayJob } from "./channel";
import { notUnderstood, quoteOf } from "./dialects";
import { overHttp } from "./http-channel";
import { emitRefusal, finishEarlier, payOrThrow, purchaseKeyOf, serializeByKey } from "./purchase";
import { type PaidResponse, withReceipt } from "./receipt";

/** As `fetch` takes it, and what may be paid. */
export interface PayInit extends RequestInit {
  /**
   * Names the purchase, 1 to 256 characters. The same key never pays twice for the same request, also when the agent
   * has lost everything but its wallet: the token itself refuses.
   */
  readonly idempotencyKey?: string;
  /** the most that this call may pay, base units */
  readonly maxAmount?: Amount;
}

export interface HttpJob extends PayJob<PaidResponse> {
  readonly template: RequestTemplate;
  /** what every attempt bears besides the caller's own headers */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Requests `input` and pays for it where the provider asks and the policy allows it.
 * @returns the provider's response, with its receipt when it was paid for
 * @throws PolicyRefused when nothing that is offered may be paid; nothing was signed
 * @throws PaymentPending when a payment's outcome is unknown; the next call presents the same one
 * @throws PaymentAlreadyUsed when the payment has bought its request and the provider holds no answer to replay
 * @throws InvalidPaymentProof when the provider keeps rejecting the payment that was made
 * @throws AbortError when its signal aborts: `message` says whether anything was signed, and what to do
 */
export async function pay(context: AgentContext, input: RequestInput, init: PayInit = {}): Promise<PaidResponse> {
  const job = await payJob(context, input, init);
  if (bearsCredential(job.template)) throw new InvalidRequest("The request already bears a payment or subscription.");
  return serializeByKey(job, () => runPurchase(context, job));
}

const OWN_FIELDS: readonly (keyof PayInit)[] = ["idempotencyKey", "maxAmount"];

export async function payJob(context: AgentContext, input: RequestInput, init: PayInit): Promise<HttpJob> {
  const { idempotencyKey, maxAmount, ...requestInit } = init;
  refuseMisspelled(init, OWN_FIELDS);
  const ledger = await context.ledger();
  const template = await templateOf(input, requestInit);
  const key =
    idempotencyKey === undefined
      ? (template.headers.get(HEADER.idempotencyKey) ?? undefined)
      : await purchaseKeyOf(context, ledger, idempotencyKey);
  const headers: Readonly<Record<string, string>> = key === undefined ? {} : { [HEADER.idempotencyKey]: key };
  const limit = maxAmount === undefined ? undefined : toAmount(maxAmount, "maxAmount");
  return { ledger, headers, template, key, maxAmount: limit, ...overHttp(context, template, headers) };
}

/** Returns the job for the request that was answered: another URL after redirects within the origin. */
export function redirectedJob(context: AgentContext, job: HttpJob, template: RequestTemplate): HttpJob {
  return { ...job, template, ...overHttp(context, template, job.headers) };
}

async function runPurchase(context: AgentContext, job: HttpJob): Promise<PaidResponse> {
  const unfinished = await finishEarlier(context, job);
  if (unfinished) return unfinished;
  const arrival = await sendWithinOrigin(context.effects, job.template, job.headers);
  if (isRedirect(arrival.response) && job.template.redirect === "follow") {
    await arrival.response.body?.cancel();
    throw new PolicyRefused("The provider redirects to another origin; the agent does not pay there.", {
      reason: "redirect",
    });
  }
  if (arrival.response.status !== 402) return withReceipt(arrival.response, undefined);
  const quote = await quoteOf(context, arrival);
  if (!quote) {
    const error = new PolicyRefused(notUnderstood(arrival.response), { reason: "quote" });
    emitRefusal(context, originAndPath(arrival.template.url), error);
    throw error;
  }
  return payOrThrow(context, redirectedJob(context, job, arrival.template), quote);
}
