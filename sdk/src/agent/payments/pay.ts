/** Makes one purchase over HTTP: requests, reads what the 402 offers, and has it paid for. */
import { HEADER, InvalidRequest, MAX_ANSWER_DEPTH, PolicyRefused, parseStrictJson, toAmount } from "../../protocol";
import { refuseMisspelled } from "../../protocol/arguments";
import { challengesIn } from "../../protocol/payment-auth";
import type { AgentContext } from "../core/context";
import type { Amount } from "../core/policy-options";
import {
  type Arrival,
  bearsCredential,
  bodyHashOf,
  isRedirect,
  originAndPath,
  type RequestInput,
  type RequestTemplate,
  readBounded,
  sendWithinOrigin,
  templateOf,
} from "../core/request";
import type { PayJob } from "./channel";
import { combined } from "./combined-quote";
import { objectIn, overHttp } from "./http-channel";
import { readChallenges } from "./mpp";
import { emitRefusal, finishEarlier, payOrThrow, purchaseKeyOf, serializeByKey } from "./purchase";
import { elsewhereIn, type ParsedQuote, readQuote, requestedUrl } from "./quote";
import { type PaidResponse, withReceipt } from "./receipt";
import { signedOffersIn } from "./signed-statements";
import { readQuoteV2 } from "./standard";

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

/** Says what a 402 without readable terms has in their place. */
function notUnderstood({ headers }: Response): string {
  const message = "The provider asks for payment without terms that can be understood";
  if (/^payment\b/i.test(headers.get("www-authenticate") ?? "")) {
    return `${message}: its WWW-Authenticate: Payment (MPP) names no charge of the method evm that can be read.`;
  }
  if ("location" in globalThis && !headers.has(HEADER.paymentRequiredV2)) {
    return `${message}: a page sees PAYMENT-REQUIRED only where the provider names it in Access-Control-Expose-Headers (CORS).`;
  }
  return `${message}: neither a JSON body with \`accepts\` nor a readable PAYMENT-REQUIRED header is there.`;
}

/** Reads what a 402 offers, in its body and in the headers of x402 version 2 and MPP. Consumes the body. */
export async function quoteOf(
  { effects, networks, tokens }: AgentContext,
  { response, template }: Arrival,
): Promise<ParsedQuote | undefined> {
  const text = await readBounded(effects, response);
  const requested = requestedUrl(template.url);
  const body = text === undefined ? undefined : parseStrictJson(text, MAX_ANSWER_DEPTH);
  const header = objectIn(response.headers, HEADER.paymentRequiredV2);
  const own = readQuote(body, requested, networks);
  const x402 = combined(own, readQuoteV2(header, requested, networks));
  const quote = combined(
    x402,
    readChallenges(challengesIn(response.headers.get(HEADER.authenticate) ?? ""), {
      resource: template.url,
      bodyHash: bodyHashOf(template),
      isAuthorized: template.headers.has(HEADER.authorization),
      networks,
      tokens,
    }),
  );
  const elsewhere = elsewhereIn(body, header, requested);
  return quote && { ...quote, elsewhere, signedOffers: await signedOffersIn(header) };
}
