/** Splits an event stream (SSE) at its events, and reads their data. Keeps every byte as it came. */
import { Unavailable, USAGE_RECEIPT_COMMENT } from "../../protocol";

/** An event of an upstream that is longer than this ends the stream, bytes. */
export const MAX_EVENT_BYTES = 1_048_576;

const LF = 0x0a;
const CR = 0x0d;
const COLON = 0x3a;

/** Collects chunks, and returns the events that are complete. Copies each byte once at most. */
export class EventSplitter {
  #parts: Uint8Array[] = [];
  #bytes = 0;
  #isLineEmpty = true;
  #isAfterCr = false;

  /** @returns the bytes of each event that this chunk completes. @throws Unavailable for an event that is too long */
  *push(chunk: Uint8Array): Generator<Uint8Array, void> {
    let begin = 0;
    for (let at = 0; at < chunk.length; at++) {
      if (!this.#endsEvent(chunk[at])) continue;
      if (this.#isAfterCr && chunk[at + 1] === LF) {
        at += 1;
        this.#isAfterCr = false;
      }
      this.#keep(chunk.subarray(begin, at + 1));
      begin = at + 1;
      yield this.rest();
    }
    this.#keep(chunk.subarray(begin));
  }

  /** Returns what came after the last event. */
  rest(): Uint8Array {
    const bytes = joined(this.#parts);
    this.#parts = [];
    this.#bytes = 0;
    return bytes;
  }

  /** A line ends with CR, LF or both; an empty one ends the event. */
  #endsEvent(byte: number | undefined): boolean {
    const completesCrLf = byte === LF && this.#isAfterCr;
    this.#isAfterCr = byte === CR;
    if (completesCrLf) return false;
    const wasEmpty = this.#isLineEmpty;
    this.#isLineEmpty = byte === LF || byte === CR;
    return this.#isLineEmpty && wasEmpty;
  }

  #keep(bytes: Uint8Array): void {
    if (bytes.length === 0) return;
    this.#parts.push(bytes);
    this.#bytes += bytes.length;
    if (this.#bytes > MAX_EVENT_BYTES) {
      throw new Unavailable(`The upstream sends an event that is longer than ${MAX_EVENT_BYTES} bytes.`);
    }
  }
}

/** Follows what is sent of an event stream: a comment may follow a whole event, never a part of one. */
export class EventBoundary {
  #tail: Uint8Array = new Uint8Array();

  get isHere(): boolean {
    return this.#tail.length === 0 || endsWithEmptyLine(this.#tail);
  }

  sent(part: Uint8Array): void {
    this.#tail = joined([this.#tail, part.subarray(-3)]).slice(-3);
  }
}

const isLineEnd = (byte: number | undefined): boolean => byte === LF || byte === CR;

function endsWithEmptyLine(bytes: Uint8Array): boolean {
  const [last, before, first] = [bytes.at(-1), bytes.at(-2), bytes.at(-3)];
  if (last === LF && before === CR) return isLineEnd(first);
  return isLineEnd(last) && isLineEnd(before);
}

export function joined(parts: readonly Uint8Array[]): Uint8Array {
  const [first] = parts;
  if (first !== undefined && parts.length === 1) return first;
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

const RECEIPT_COMMENTS = new RegExp(`^(?:: ?${USAGE_RECEIPT_COMMENT}(?: [^\\r\\n]*)?[\\r\\n]+)+$`);

/** Longer parts are no receipts. */
const MAX_RECEIPTS_BYTES = 65_536;

/** Returns whether a part holds usage receipts alone: those of an upstream are for its own customer. */
export function isReceiptComments(part: Uint8Array): boolean {
  return (
    part[0] === COLON && part.length <= MAX_RECEIPTS_BYTES && RECEIPT_COMMENTS.test(new TextDecoder().decode(part))
  );
}

/** Writes an event that says why a stream ended, in the form in which the SDKs of model providers expect an error. */
export function errorEvent(code: string, message: string): Uint8Array {
  return new TextEncoder().encode(
    `event: error\ndata: ${JSON.stringify({ error: { type: code, code, message } })}\n\n`,
  );
}
