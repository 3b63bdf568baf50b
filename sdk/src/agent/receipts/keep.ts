/**
 * Keeps the usage receipts of a subscription's answers: from the header, and from the comments of an event stream as it
 * passes. Judges what needs no chain; who may sign is judged by an audit. A fault never ends the request.
 */
import {
  HEADER,
  parseUsageReceipt,
  requestHashOf,
  resourceOfUrl,
  USAGE_RECEIPT_COMMENT,
  usageReceiptTexts,
} from "../../protocol";
import type { AgentContext } from "../core/context";
import type { Arrival } from "../core/request";
import type { KeptReceipt, ReceiptFault } from "../ledger/evidence";
import type { SubscriptionEntry } from "../ledger/ledger-store";

export interface ReceiptedRequest {
  readonly entry: SubscriptionEntry;
  readonly method: string;
  readonly resource: string;
}

/** Keeps receipts that came with an answer. Never rejects. */
export async function keepReceipts(
  { effects, receipts }: AgentContext,
  request: ReceiptedRequest,
  texts: readonly string[],
): Promise<void> {
  if (texts.length === 0) return;
  const { chainId, turnpike, id: idHash, planId } = request.entry;
  const kept = texts.map((text): KeptReceipt => {
    const fault = faultOf(text, request);
    // A file keeps lines of plain text.
    const shown = text.slice(0, MAX_KEPT_LENGTH).replace(/[^!-~]/g, "_");
    return { chainId, turnpike, idHash, text: fault === "malformed" ? shown : text, fault };
  });
  for (const { fault } of kept) if (fault) effects.emit({ type: "usage-receipt.faulty", fault, idHash, planId });
  await receipts.add(kept).catch(() => effects.emit({ type: "usage-receipt.unkept", idHash, planId }));
}

const MAX_KEPT_LENGTH = 1_024;

function faultOf(text: string, { entry, method, resource }: ReceiptedRequest): ReceiptFault | undefined {
  const signed = parseUsageReceipt(text);
  if (!signed) return "malformed";
  if (signed.receipt.idHash !== entry.id) return "subscription";
  return signed.receipt.requestHash === requestHashOf(signed.salt, method, resource) ? undefined : "request";
}

/** What was answered, to which request, with which subscription. */
export interface SubscribedArrival extends Arrival {
  readonly entry: SubscriptionEntry;
}

const requestOf = ({ entry, template }: SubscribedArrival): ReceiptedRequest => ({
  entry,
  method: template.method,
  resource: resourceOfUrl(template.url) ?? template.url,
});

/** Keeps the receipts in a response's header: all that a redirect has. */
export function keepHeaderReceipts(context: AgentContext, arrival: SubscribedArrival): Promise<void> {
  const texts = usageReceiptTexts(arrival.response.headers.get(HEADER.usageReceipt));
  return keepReceipts(context, requestOf(arrival), texts);
}

/** Keeps the receipts of a response. @returns the response; of an event stream, one whose body is read as it passes */
export async function keepReceiptsOf(context: AgentContext, arrival: SubscribedArrival): Promise<Response> {
  const { response } = arrival;
  const request = requestOf(arrival);
  await keepHeaderReceipts(context, arrival);
  const type = response.headers.get("content-type") ?? "";
  if (response.body === null || !type.toLowerCase().startsWith("text/event-stream")) return response;
  const reader = new CommentReader();
  const passing = new TransformStream<Uint8Array, Uint8Array>({
    async transform(chunk, controller) {
      controller.enqueue(chunk);
      await keepReceipts(context, request, reader.push(chunk));
    },
  });
  const { status, statusText, headers, url, redirected } = response;
  const read = new Response(response.body.pipeThrough(passing), { status, statusText, headers });
  Object.defineProperties(read, { url: { value: url }, redirected: { value: redirected } });
  return read;
}

const COMMENT = `: ${USAGE_RECEIPT_COMMENT} `;

/** Finds receipts among the lines of an event stream, however it is cut. Holds no more than one short line. */
export class CommentReader {
  readonly #decoder = new TextDecoder();
  #line = "";

  /** @returns the receipts of the lines that this chunk completes */
  push(chunk: Uint8Array): string[] {
    const lines = (this.#line + this.#decoder.decode(chunk, { stream: true })).split(/\r\n|\r|\n/);
    // A long line is no comment of ours: its beginning says enough.
    this.#line = (lines.pop() ?? "").slice(0, MAX_LINE_LENGTH);
    return lines.filter((line) => line.startsWith(COMMENT)).map((line) => line.slice(COMMENT.length));
  }
}

const MAX_LINE_LENGTH = COMMENT.length + MAX_KEPT_LENGTH;
