/**
 * Copies a body as it passes, up to a limit: what a handler writes to a Node response, or the body of a fetch-style
 * response.
 */
import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import { type KeptAnswer, mayBeKept, safeHeaders } from "./keeper";

/** One body's copy. */
class Recorder {
  readonly #maxBytes: number;
  #chunks: Uint8Array[] = [];
  #bytes = 0;
  #isWhole = true;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** whether everything that passed is still here */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  get bytes(): number {
    return this.#bytes;
  }

  push(chunk: Uint8Array): void {
    if (!this.#isWhole) return;
    this.#bytes += chunk.byteLength;
    if (this.#bytes > this.#maxBytes) this.stop();
    else this.#chunks.push(chunk);
  }

  stop(): void {
    this.#isWhole = false;
    this.#chunks = [];
  }

  body(): Uint8Array {
    return Buffer.concat(this.#chunks);
  }
}

/** A body that takes longer than this after its first byte is a stream, which is not kept. */
export const STREAM_MS = 60_000;

export interface NodeRecording {
  /** Takes what the handler gives to `writeHead`. */
  head(args: readonly unknown[]): void;
  /**
   * Takes what the handler gives to `write` or `end`.
   * @returns "last" where this completes the length that the head declares, "void" where nothing is kept any more
   */
  take(args: readonly unknown[]): "open" | "last" | "void";
  /** @returns undefined where it may not be kept */
  answer(): KeptAnswer | undefined;
}

/** A response's status and headers; names in lower case. */
export interface ResponseHead {
  readonly status: number;
  readonly headers: Map<string, string>;
}

/** @param args what the handler gave to `writeHead`; undefined: it sets status and headers on the response alone */
export function headOf(response: ServerResponse, args?: readonly unknown[]): ResponseHead {
  const headers = headersOf(response.getHeaders());
  if (!args) return { status: response.statusCode, headers };
  const [status, ...rest] = args;
  const given = typeof rest[0] === "string" ? rest[1] : (rest[1] ?? rest[0]);
  for (const [name, value] of pairsOf(given)) headers.set(name.toLowerCase(), value);
  return { status: Number(status), headers };
}

/** Copies what a handler writes to a Node response. Delays nothing and writes nothing. */
export function recordNode(response: ServerResponse, maxBytes: number): NodeRecording {
  const recorder = new Recorder(maxBytes);
  let head: ResponseHead | undefined;

  const headSoFar = (): ResponseHead => head ?? headOf(response);

  return {
    head(args) {
      head = headOf(response, args);
    },
    take(args) {
      const { status, headers } = headSoFar();
      const chunk = bytesOf(args);
      if (!mayBeKept(status, headers.get("content-type"))) recorder.stop();
      if (chunk) recorder.push(chunk);
      if (!recorder.isWhole) return "void";
      const declared = headers.get("content-length");
      return declared !== undefined && recorder.bytes > 0 && recorder.bytes >= Number(declared) ? "last" : "open";
    },
    answer() {
      if (!recorder.isWhole) return undefined;
      const { status, headers: all } = headSoFar();
      const headers = safeHeaders(all);
      return headers && { status, headers, body: recorder.body() };
    },
  };
}

function headersOf(headers: OutgoingHttpHeaders): Map<string, string> {
  return new Map(pairsOf(headers).map(([name, value]) => [name.toLowerCase(), value]));
}

type Pair = [name: string, value: string];

/** Reads headers in every form that `writeHead` accepts. */
export function pairsOf(headers: unknown): Pair[] {
  if (typeof headers !== "object" || headers === null) return [];
  const listed = Array.isArray(headers)
    ? Array.isArray(headers[0])
      ? (headers as [string, unknown][])
      : headers.flatMap((name: unknown, at) =>
          at % 2 === 0 ? [[String(name), headers[at + 1]] as [string, unknown]] : [],
        )
    : Object.entries(headers);
  const joined = new Map<string, string>();
  for (const [name, value] of listed) {
    if (value === undefined) continue;
    const text = Array.isArray(value) ? value.join(", ") : String(value);
    const before = Array.isArray(headers) ? joined.get(name) : undefined;
    joined.set(name, before === undefined ? text : `${before}, ${text}`);
  }
  return [...joined];
}

/** Returns a copy of what a handler gives to `write` or `end`. */
function bytesOf([chunk, encoding]: readonly unknown[]): Uint8Array | undefined {
  if (typeof chunk === "string") {
    return Buffer.from(chunk, typeof encoding === "string" ? (encoding as BufferEncoding) : "utf8");
  }
  // A copy: the handler may reuse the buffer.
  return chunk instanceof Uint8Array ? Buffer.from(chunk) : undefined;
}

const HTTP2_CANCEL = 8;

/** Returns whether the client, rather than this server, closed the connection. */
export function hasClientLeft({ req, errored }: ServerResponse): boolean {
  const { socket, stream } = req as typeof req & { readonly stream?: { readonly rstCode?: number } };
  if (req.httpVersionMajor >= 2) return stream?.rstCode === HTTP2_CANCEL;
  // What destroys the response with an error, as stream.pipeline does, destroys the socket with it.
  return !errored && (socket.readableEnded || socket.errored !== null);
}

export interface FetchRecording {
  readonly maxBytes: number;
  /** Called once. Rejects when the claim could not be written: then nothing more may leave. */
  readonly settle: (answer: KeptAnswer | undefined) => Promise<unknown>;
}

/** What reads the body of a response. */
export type Reader = ReadableStreamDefaultReader<Uint8Array>;

type Chunk = Awaited<ReturnType<Reader["read"]>>;

/**
 * Copies the body of a fetch-style response, and settles before its end leaves. What is there at once is settled before
 * its first byte; a stream is passed on as it comes.
 * @throws what `settle` throws, while nothing has left
 */
export async function recordResponse(response: Response, { maxBytes, settle }: FetchRecording): Promise<Response> {
  const { status, statusText, headers, body } = response;
  const declared = headers.get("content-length");
  const length = declared === null ? undefined : Number(declared);
  const kept = mayBeKept(status, headers.get("content-type") ?? undefined) ? safeHeaders(headers) : undefined;
  if (!kept || body?.locked || (length ?? 0) > maxBytes) {
    await settle(undefined);
    return response;
  }
  const recorder = new Recorder(maxBytes);
  const answer = (): KeptAnswer => ({ status, headers: kept, body: recorder.body() });
  if (!body) {
    await settle(answer());
    return response;
  }
  const reader = body.getReader() as Reader;
  const passed: Uint8Array[] = [];
  const isLater = new Promise<undefined>((resolve) => setImmediate(() => resolve(undefined)));
  const init = { status, statusText, headers };
  for (;;) {
    const reading = reader.read();
    // The next read receives the rejection.
    reading.catch(() => undefined);
    const chunk = await Promise.race([reading, isLater]).catch(() => undefined);
    if (chunk?.done) {
      await settle(answer());
      return wholeResponse(recorder.body(), init);
    }
    if (!chunk) return new Response(passOn({ reader, reading, passed, recorder, answer, length, settle }), init);
    recorder.push(chunk.value);
    passed.push(chunk.value);
    if (recorder.isWhole) continue;
    await settle(undefined);
    return new Response(restOf(reader, passed), init);
  }
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
  readonly answer: () => KeptAnswer;
  /** what the head declares */
  readonly length: number | undefined;
  readonly settle: FetchRecording["settle"];
}

function passOn({ reader, reading, passed, recorder, answer, length, settle }: Passing): ReadableStream<Uint8Array> {
  let next: Promise<Chunk> | undefined = reading;
  let settling: Promise<unknown> | undefined;
  const settleOnce = async (kept?: KeptAnswer): Promise<void> => {
    clearTimeout(timer);
    settling ??= settle(kept);
    await settling;
  };
  const giveUp = (): void => {
    recorder.stop();
    // The reader of the rest receives the rejection.
    settleOnce().catch(() => undefined);
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
      await settleOnce();
      throw error;
    }
    if (chunk.done) {
      await settleOnce(recorder.isWhole ? answer() : undefined);
      return undefined;
    }
    recorder.push(chunk.value);
    // The last byte of a declared length waits as the end does.
    if (!recorder.isWhole) await settleOnce();
    else if (recorder.bytes === length) await settleOnce(answer());
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
        // The client has left, and comes back for this answer: the rest is read for it.
        try {
          while (recorder.isWhole && (await read()));
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
export function restOf(
  reader: Pick<Reader, "read" | "cancel">,
  read: Uint8Array[],
  reading?: Promise<Chunk>,
): ReadableStream<Uint8Array> {
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
