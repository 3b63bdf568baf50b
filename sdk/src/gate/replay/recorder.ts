/** Copies a body as it passes, up to a limit: what a handler writes to a Node response. */
import type { OutgoingHttpHeaders, ServerResponse } from "node:http";
import type { KeptAnswer } from "./fit";
import { mayBeKept, safeHeaders } from "./keeper";

/** One body's copy. */
export class Recorder {
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

/** Node writes a string of "buffer" as one of no encoding. */
export const encodingIn = (encoding: unknown): BufferEncoding[] =>
  typeof encoding === "string" && encoding !== "buffer" ? [encoding as BufferEncoding] : [];

/** Returns a copy of what a handler gives to `write` or `end`. */
function bytesOf([chunk, encoding]: readonly unknown[]): Uint8Array | undefined {
  if (typeof chunk === "string") return Buffer.from(chunk, ...encodingIn(encoding));
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
