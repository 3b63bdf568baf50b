/** Splits an event stream (SSE) at its events, and reads their data. Keeps every byte as it came. */
import { Unavailable, USAGE_RECEIPT_COMMENT } from "../../protocol";

/** An event of an upstream that is longer than this ends the stream, bytes. */
const MAX_EVENT_BYTES = 1_048_576;

const LF = 0x0a;
const CR = 0x0d;

/** Collects chunks, and returns the events that are complete. */
export class EventSplitter {
  #rest: Uint8Array = new Uint8Array();

  /** @returns the bytes of each event that this chunk completes. @throws Unavailable for an event without end */
  push(chunk: Uint8Array): Uint8Array[] {
    const from = Math.max(1, this.#rest.length - 2);
    const bytes = joined([this.#rest, chunk]);
    const events: Uint8Array[] = [];
    let begin = 0;
    for (let at = from; at < bytes.length; at++) {
      if (at <= begin || !isBlankLine(bytes, at)) continue;
      events.push(bytes.subarray(begin, at + 1));
      begin = at + 1;
    }
    this.#rest = bytes.subarray(begin);
    if (this.#rest.length > MAX_EVENT_BYTES) throw new Unavailable("The upstream sends an event that is too long.");
    return events;
  }

  /** Returns what came after the last event. */
  rest(): Uint8Array {
    return this.#rest;
  }
}

/** Returns whether an empty line, which ends an event, ends at this byte. */
function isBlankLine(bytes: Uint8Array, at: number): boolean {
  const before = bytes[at - 1];
  if (bytes[at] === CR) return before === CR;
  return bytes[at] === LF && (before === LF || (before === CR && bytes[at - 2] === LF));
}

/** Follows what is sent of an event stream: a comment may follow a whole event, never a part of one. */
export class EventBoundary {
  #tail: Uint8Array = new Uint8Array();

  get isHere(): boolean {
    return this.#tail.length === 0 || isBlankLine(this.#tail, this.#tail.length - 1);
  }

  sent(part: Uint8Array): void {
    this.#tail = joined([this.#tail, part.subarray(-3)]).slice(-3);
  }
}

export function joined(parts: readonly Uint8Array[]): Uint8Array {
  const [first, second, ...more] = parts;
  if (first !== undefined && (second === undefined || (second.length === 0 && more.length === 0))) return first;
  const whole = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

const LINE = /\r\n|\r|\n/;

const DATA = /^data: ?/;

/** Returns the data of one event, as JSON where it is; undefined where it has none. */
export function dataOf(event: Uint8Array): unknown {
  const lines = new TextDecoder()
    .decode(event)
    .split(LINE)
    .filter((line) => line.startsWith("data:"));
  return lines.length === 0 ? undefined : parsed(lines.map((line) => line.replace(DATA, "")).join("\n"));
}

/** Returns parsed JSON; text such as "[DONE]" as it is. */
export function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Writes usage receipts as comments, which no reader of events sees. */
export function receiptComments(receipts: readonly string[]): Uint8Array {
  return new TextEncoder().encode(receipts.map((text) => `: ${USAGE_RECEIPT_COMMENT} ${text}\n\n`).join(""));
}

/** Writes an event that says why a stream ended, in the form in which the SDKs of model providers expect an error. */
export function errorEvent(code: string, message: string): Uint8Array {
  return new TextEncoder().encode(
    `event: error\ndata: ${JSON.stringify({ error: { type: code, code, message } })}\n\n`,
  );
}
