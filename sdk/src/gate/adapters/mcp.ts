/**
 * Adapts a gate to tool calls of the Model Context Protocol: a decision becomes a result, and a result settles its
 * payment. A result with `isError` counts as a failed answer, and a result leaves whole, once its payment has settled. One
 * that asks the client for input is no answer yet.
 */
import { askResult, type CallResult, isInputRequired, MCP_META, refusalResult } from "../../mcp/wire";
import {
  decodeJsonHeader,
  EXTENSION,
  HEADER,
  isTurnpikeError,
  type JsonObject,
  usageReceiptTexts,
  utf8ToBytes,
} from "../../protocol";
import { type Allowed, type Answer, answerOf, type Decision, errorAnswer } from "../core/answer";
import { MAX_WITHHELD_BYTES, type Payment, reportedWith } from "../core/payment";
import type { GateRequest } from "../core/request";
import type { Gate } from "../decision/gate";
import {
  cancelDeferred,
  hasFailed,
  isRefusedCharge,
  openRequestScope,
  type RequestScope,
  requestScopes,
  settleScope,
  usageReceiptHeader,
  withdraw,
} from "../decision/request-scope";
import type { KeptAnswer } from "../replay/fit";
import { challengesMeta } from "./mcp-mpp";

/** The result of a tool call; more members pass through. */
export interface ToolResult extends CallResult {
  readonly [member: string]: unknown;
}

/** One call, and how to serve it. */
export interface PaidCall {
  readonly request: GateRequest;
  /** whether the client has cancelled the call, or has closed the connection that the result would take */
  readonly hasLeft: () => boolean;
  /** false for a tool with an output schema, whose clients throw for other structured contents */
  readonly isStructured: boolean;
  /** the argument that holds a payment, where one does: it pays nothing there */
  readonly misplaced: string | undefined;
  /** Runs the handler. What it throws becomes a failed result, or is thrown on where `passes` says so. */
  readonly run: (payment: Payment) => Promise<ToolResult>;
  /** whether the protocol itself answers what was thrown */
  readonly passes: (thrown: unknown) => boolean;
  /** called with what no client should read: the gate could not decide */
  readonly onFault: (error: unknown) => void;
}

/** @returns the result to send; of a call whose client has left nobody receives it. @throws what `passes` lets through */
export async function callPaid(gate: Gate, call: PaidCall): Promise<ToolResult> {
  const fail = async (error: unknown): Promise<ToolResult> => {
    call.onFault(error);
    return resultOf(errorAnswer(undefined), call.isStructured);
  };
  return gate.decide({ facts: call.request, act: (decision) => served(gate, call, decision), fail });
}

async function served(gate: Gate, call: PaidCall, decision: Decision): Promise<ToolResult> {
  const { request, isStructured } = call;
  if (decision.kind === "replay") return replayed(decision.answer);
  if (decision.kind === "pay" && call.misplaced !== undefined) return misplacedResult(decision, call);
  if (decision.kind !== "allow") return resultOf(answerOf(decision), isStructured);
  if (call.hasLeft()) {
    await withdraw(decision);
    return refusalResult({ message: "The call was cancelled before it was served.", retryable: true });
  }
  const scope = openRequestScope(request, decision);
  const outcome = await ran(call, scope, decision);
  let result = outcome.result;
  if (isInputRequired(result)) {
    await withdraw(decision);
    return withUsageReceipts(result, scope);
  }
  try {
    if (decision.payment.kind !== "free") result = await settled(gate, call, { scope, decision, outcome });
  } catch (error) {
    if (!isTurnpikeError(error)) call.onFault(error);
    return resultOf(errorAnswer(error), isStructured);
  }
  if (outcome.thrown) throw outcome.thrown.error;
  return result;
}

/** What a handler's run came to. */
interface Outcome {
  readonly result: ToolResult;
  /** the result as JSON */
  readonly body: Uint8Array;
  /** to be thrown on */
  readonly thrown?: { readonly error: unknown };
}

async function ran(call: PaidCall, scope: RequestScope, { payment }: Allowed): Promise<Outcome> {
  try {
    return outcomeOf(await requestScopes.run(scope, () => call.run(scope.payment ?? payment)));
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    const failed = outcomeOf({ isError: true, content: [{ type: "text", text }] });
    return call.passes(error) ? { ...failed, thrown: { error } } : failed;
  }
}

/** @throws TypeError for a result that has no JSON form, and could not be sent */
const outcomeOf = (result: ToolResult): Outcome => ({ result, body: utf8ToBytes(JSON.stringify(result)) });

interface Served {
  readonly scope: RequestScope;
  readonly decision: Allowed;
  readonly outcome: Outcome;
}

async function settled(gate: Gate, call: PaidCall, { scope, decision, outcome }: Served): Promise<ToolResult> {
  const { result, body } = outcome;
  const status = result.isError === true ? 500 : 200;
  if (scope.deferred) return settledAfter(gate, call, scope, outcome);
  if (isRefusedCharge(scope, status)) {
    const answer = await gate.answerOfRefusedCharge(scope);
    await settleScope(scope, answer.status >= 500 ? "release" : "use");
    return withUsageReceipts(resultOf(answer, call.isStructured), scope);
  }
  const isFailure = hasFailed(scope, status);
  const fits = scope.keeper !== undefined && body.byteLength <= scope.keeper.maxBytes;
  const kept = !isFailure && fits ? { status, headers: lowered(decision.headers), body } : undefined;
  await settleScope(scope, isFailure ? "release" : "use", kept);
  const headers = reportedWith(decision, status);
  return withUsageReceipts(withReceipts(result, { ...headers, ...(isFailure && scope.refund?.headers) }), scope);
}

function withUsageReceipts(result: ToolResult, scope: RequestScope): ToolResult {
  const receipts = usageReceiptTexts(usageReceiptHeader(scope)[HEADER.usageReceipt]);
  return receipts.length === 0 ? result : { ...result, _meta: { ...result._meta, [MCP_META.usageReceipts]: receipts } };
}

const lowered = (headers: Readonly<Record<string, string>>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]));

/** Of a payment that settles now that its handler has run: a failure is free, and nothing leaves unsettled. */
async function settledAfter(
  gate: Gate,
  call: PaidCall,
  scope: RequestScope,
  { result, body }: Outcome,
): Promise<ToolResult> {
  if (result.isError === true) {
    await cancelDeferred(scope);
    return result;
  }
  const answer = body.byteLength <= MAX_WITHHELD_BYTES ? { status: 200, headers: {}, body } : undefined;
  if (call.hasLeft()) {
    // The same payment finds it when the call is repeated.
    await scope.deferred?.shelve(answer);
    await cancelDeferred(scope);
    // An event store may keep what is returned, and a client can fetch it from there.
    return refusalResult({
      message: "The connection closed early, and nothing is charged: repeat the call as it was.",
      retryable: true,
    });
  }
  const outcome = await gate.settle(scope, answer);
  return outcome.kind === "settled"
    ? withReceipts(result, outcome.report.headers)
    : resultOf(outcome.answer, call.isStructured);
}

/** The same result again; the receipts of a payment that has settled since are in the headers. */
function replayed({ headers, body }: KeptAnswer): ToolResult {
  const result = withReceipts(JSON.parse(Buffer.from(body).toString("utf8")) as ToolResult, headers);
  return { ...result, _meta: { ...result._meta, [MCP_META.replayed]: true } };
}

const RECEIPTS = [
  [HEADER.paymentResponseV2, MCP_META.receipt],
  [HEADER.paymentResponse, MCP_META.receiptV1],
  [HEADER.paymentReceipt, MCP_META.receiptMpp],
  [HEADER.paymentRefund, MCP_META.refund],
] as const;

function withReceipts(result: ToolResult, headers: Readonly<Record<string, string>>): ToolResult {
  const receipts: Record<string, JsonObject> = {};
  for (const [name, key] of RECEIPTS) {
    const receipt = decodeJsonHeader(headers[name] ?? headers[name.toLowerCase()] ?? "");
    if (receipt) receipts[key] = receipt;
  }
  return Object.keys(receipts).length === 0 ? result : { ...result, _meta: { ...result._meta, ...receipts } };
}

/** Translates an answer without a handler: a 402 into an ask, every other one into a refusal with the same body. */
function resultOf(answer: Answer, isStructured: boolean): ToolResult {
  if (answer.status !== 402) return refusalOf(answer);
  const said = saidBy(answer);
  const header = answer.headers[HEADER.paymentRequiredV2] ?? "";
  const asked = askResult({ required: askedBy(header) ?? said, quote: said }, isStructured);
  return { ...asked, _meta: { ...asked._meta, ...challengesMeta(answer, said) } };
}

/** Asks for payment, and says where the one belongs that is among the arguments. Models read `error` of the text. */
function misplacedResult(
  decision: Extract<Decision, { kind: "pay" }>,
  { misplaced, isStructured }: PaidCall,
): ToolResult {
  const answer = answerOf(decision);
  const said = saidBy(answer);
  const message = `The argument ${JSON.stringify(misplaced)} holds a payment, and pays nothing there: leave it out, and send the payment as _meta["${MCP_META.payment}"] of the call's params, or over HTTP in the header ${HEADER.paymentSignatureV2}.`;
  const required = askedBy(answer.headers[HEADER.paymentRequiredV2] ?? "") ?? said;
  return askResult({ required: { ...required, error: message }, quote: { ...said, message } }, isStructured);
}

/** Returns the result of a call that no payment helps, with the seconds to wait in its body. */
export function refusalOf(answer: Answer): ToolResult {
  const retryAfter = answer.headers["Retry-After"];
  return refusalResult({ ...saidBy(answer), ...(retryAfter !== undefined && { retryAfterSec: Number(retryAfter) }) });
}

/** Returns the body, whose message names the place in `_meta` instead of a header. */
function saidBy({ body }: Answer): JsonObject {
  const said = JSON.parse(String(body)) as JsonObject;
  if (typeof said.message !== "string") return said;
  const message = said.message
    .replaceAll(HEADER.subscription, `_meta["${MCP_META.subscription}"]`)
    .replaceAll(IN_PAYMENT_HEADER, `in _meta["${MCP_META.payment}"]`)
    .replaceAll(PAYMENT_HEADERS, "the payment in _meta");
  return { ...said, message };
}

const PAYMENT_HEADER = `(?<!-)(?:${HEADER.payment}|${HEADER.paymentSignatureV2})(?!-)`;

const PAYMENT_HEADERS = new RegExp(PAYMENT_HEADER, "g");

const IN_PAYMENT_HEADER = new RegExp(`\\bin ${PAYMENT_HEADER}`, "g");

/**
 * A challenge to sign in names a host, and every server's tool of one name would be one host: it is left out. A
 * subscription's id goes into `_meta`.
 */
function askedBy(header: string): JsonObject | undefined {
  const required = decodeJsonHeader(header, header.length);
  const extensions = required?.extensions as JsonObject | undefined;
  if (!required || !extensions) return required;
  const { [EXTENSION.signIn]: _, [EXTENSION.service]: service, ...others } = extensions;
  return {
    ...required,
    extensions: { ...others, ...(service !== undefined && serviceOverMcp(service as JsonObject)) },
  };
}

function serviceOverMcp(service: JsonObject): JsonObject {
  const { header: _, ...info } = service.info as JsonObject;
  return { [EXTENSION.service]: { ...service, info: { ...info, meta: MCP_META.subscription } } };
}
