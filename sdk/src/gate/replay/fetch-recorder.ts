/** Settles a fetch-style response by what its body does, and copies that body as it passes. */
import { types } from "node:util";
import type { KeptAnswer } from "./fit";
import { mayBeKept, safeHeaders } from "./keeper";
import { Recorder, STREAM_MS } from "./recorder";

export interface FetchRecording {
  /** of a body that is kept; undefined: none is */
  readonly maxBytes: number | undefined;
  /** of a HEAD: frameworks drop the body without reading it */
  readonly isHead: boolean;
  /** Called once. Rejects when the claim could not be written: then nothing more may leave. */
  readonly settle: (how: "use" | "release", answer?: KeptAnswer) => Promise<unknown>;
}

/** What reads the body of a response. */
export type Reader = Pick<ReadableStreamDefaultReader<Uint8Array>, "read" | "cancel">;

type Chunk = Awaited<ReturnType<Reader["read"]>>;

/** Reads the parts of a body that servers send, which may be strings. An empty one is no byte. */
export function readerOf(body: ReadableStream<unknown>): Reader {
  const reader = body.getReader();
  const read = async (): Promise<Chunk> => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return { done, value: undefined };
      const bytes = typeof value === "string" ? Buffer.from(value) : value;
      if (!types.isUint8Array(bytes)) {
        const error = new TypeError("a part of the response's body is neither a string nor a Uint8Array");
        reader.cancel(error).catch(() => undefined);
        throw error;
      }
      if (bytes.byteLength > 0) return { done: false, value: bytes as Uint8Array<ArrayBuffer> };
    }
  };
  return { read, cancel: (reason) => reader.cancel(reason) };
}

/** What is there when everything that can be read at once was read. */
const nothingYet = (): Promise<undefined> => new Promise((resolve) => setImmediate(() => resolve(undefined)));

/**
 * Copies the body of a fetch-style response, and settles before its end leaves; one that is not kept, before its first
 * byte does. What is there at once is settled before the head; a stream is passed on as it comes. A body that fails
 * before its first byte is released.
 * @throws what `settle` throws, while nothing has left
 */
export async function recordResponse(
  response: Response,
  { maxBytes, isHead, settle }: FetchRecording,
): Promise<Response> {
  const { status, statusText, headers, body } = response;
  const declared = headers.get("content-length");
  const length = declared === null ? undefined : Number(declared);
  const isShort = maxBytes !== undefined && (length ?? 0) <= maxBytes;
  const kept =
    isShort && mayBeKept(status, headers.get("content-type") ?? undefined) ? safeHeaders(headers) : undefined;
  const recorder = new Recorder(maxBytes ?? 0);
  if (!kept) recorder.stop();
  const answer = () => (kept && recorder.isWhole ? { status, headers: kept, body: recorder.body() } : undefined);
  if (!body || body.locked) {
    await settle("use", body ? undefined : answer());
    return response;
  }
  const reader = readerOf(body);
  const passed: Uint8Array[] = [];
  const isLater = nothingYet();
  const init = { status, statusText, headers };
  for (;;) {
    const reading = reader.read();
    // The next read receives the rejection.
    reading.catch(() => undefined);
    const chunk = await Promise.race([reading, isLater]).catch(() => undefined);
    if (chunk?.done) {
      await settle("use", answer());
      return wholeResponse(recorder.body(), init);
    }
    if (!chunk && isHead) {
      reader.cancel().catch(() => undefined);
      await settle("use", kept && { status, headers: kept, body: new Uint8Array() });
      return new Response(null, init);
    }
    if (!chunk) return new Response(passOn({ reader, reading, passed, recorder, answer, length, settle }), init);
    recorder.push(chunk.value);
    passed.push(chunk.value);
    if (recorder.isWhole) continue;
    await settle("use");
    return unkept(reader, passed, init);
  }
}

/** A body that is settled: one that has its end at once is sent by its length still. */
async function unkept(reader: Reader, passed: Uint8Array[], init: ResponseHeadInit): Promise<Response> {
  const reading = reader.read();
  const next = await Promise.race([reading, nothingYet()]).catch(() => undefined);
  return next?.done ? wholeResponse(Buffer.concat(passed), init) : new Response(restOf(reader, passed, reading), init);
}

/** A response whose body was read to its end: it is sent by its length, and servers write that themselves. */
export function wholeResponse(body: Uint8Array | null, { headers: given, ...init }: ResponseHeadInit): Response {
  const headers = new Headers(given);
  headers.delete("Transfer-Encoding");
  return new Response(body as BodyInit | null, { ...init, headers });
}

type ResponseHeadInit = Pick<Response, "status" | "statusText" | "headers">;

interface Passing {
  readonly reader: Reader;
  /** a read that has begun */
  readonly reading: Promise<Chunk>;
  /** read, and not sent yet */
  readonly passed: Uint8Array[];
  readonly recorder: Recorder;
  /** undefined where it is not kept */
  readonly answer: () => KeptAnswer | undefined;
  /** what the head declares */
  readonly length: number | undefined;
  readonly settle: FetchRecording["settle"];
}

function passOn({ reader, reading, passed, recorder, answer, length, settle }: Passing): ReadableStream<Uint8Array> {
  let next: Promise<Chunk> | undefined = reading;
  let hasBegun = passed.length > 0;
  let settling: Promise<unknown> | undefined;
  const settleOnce = async (how: "use" | "release", kept?: KeptAnswer): Promise<void> => {
    clearTimeout(timer);
    settling ??= settle(how, kept);
    await settling;
  };
  const giveUp = (): void => {
    recorder.stop();
    // The reader of the rest receives the rejection.
    settleOnce("use").catch(() => undefined);
    if (isCancelled) reader.cancel().catch(() => undefined);
  };
  let isCancelled = false;
  const timer = setTimeout(giveUp, STREAM_MS);
  timer.unref?.();

  /** @returns undefined at the end, with everything settled */
  async function read(): Promise<Uint8Array | undefined> {
    let chunk: Chunk;
    try {
      // Cleared before awaiting: a stream that is cancelled during a read starts another read.
      const taken = next ?? reader.read();
      next = undefined;
      chunk = await taken;
    } catch (error) {
      await settleOnce(hasBegun ? "use" : "release");
      throw error;
    }
    if (chunk.done) {
      await settleOnce("use", answer());
      return undefined;
    }
    hasBegun = true;
    recorder.push(chunk.value);
    // The last byte of a declared length waits as the end does.
    if (!recorder.isWhole) await settleOnce("use");
    else if (recorder.bytes === length) await settleOnce("use", answer());
    return chunk.value;
  }

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const chunk = passed.shift() ?? (await read());
        if (chunk) controller.enqueue(chunk);
        else controller.close();
      },
      async cancel(reason) {
        isCancelled = true;
        if (settling) return reader.cancel(reason);
        try {
          // The client has left, and comes back for this answer: the rest is read for it.
          while (recorder.isWhole && (await read()));
          await settleOnce("use");
        } catch {
          // It broke off, or could not be written: no reader is left.
        }
        await reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

/**
 * Returns a body whose first parts were read already.
 * @param read those parts
 * @param reading a read that has begun
 */
export function restOf(reader: Reader, read: Uint8Array[], reading?: Promise<Chunk>): ReadableStream<Uint8Array> {
  let next = reading;
  // The next pull receives the rejection.
  reading?.catch(() => undefined);
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const held = read.shift();
        if (held) return controller.enqueue(held);
        const taken = next ?? reader.read();
        next = undefined;
        const { done, value } = await taken;
        if (done) controller.close();
        else controller.enqueue(value);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}
