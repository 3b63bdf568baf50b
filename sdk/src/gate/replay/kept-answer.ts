/** Encodes the part of an answer that is kept: its status, the headers that are safe to repeat, and its body. */

/** One kept answer. */
export interface KeptAnswer {
  readonly status: number;
  /** names in lower case */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
}

const MAX_HEADER_BYTES = 16 * 1_024;

/**
 * Headers that are not repeated: a session belongs to one client, a connection to one response, and senders set the
 * rest themselves.
 */
const UNSAFE: ReadonlySet<string> = new Set([
  "set-cookie",
  "set-cookie2",
  "clear-site-data",
  "connection",
  "keep-alive",
  "proxy-connection",
  "proxy-authenticate",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "content-length",
  "date",
  "age",
  "alt-svc",
  "server-timing",
]);

/** @returns undefined for headers that are too many to keep */
export function safeHeaders(given: Iterable<readonly [string, string]>): Record<string, string> | undefined {
  const headers: Record<string, string> = {};
  let bytes = 0;
  for (const [name, value] of given) {
    const lower = name.toLowerCase();
    if (UNSAFE.has(lower)) continue;
    headers[lower] = headers[lower] === undefined ? value : `${headers[lower]}, ${value}`;
    bytes += lower.length + value.length;
  }
  return bytes <= MAX_HEADER_BYTES ? headers : undefined;
}

/** An event stream never ends in time; a switched protocol has no body of its own. */
export function mayBeKept(status: number, contentType: string | undefined): boolean {
  return status >= 200 && status < 500 && !/^\s*text\/event-stream\b/i.test(contentType ?? "");
}

export function encodeKept({ status, headers, body }: KeptAnswer): Uint8Array {
  const head = Buffer.from(JSON.stringify({ status, headers }));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(head.length);
  return Buffer.concat([length, head, body]);
}

export function decodeKept(bytes: Uint8Array): KeptAnswer {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const bodyAt = 4 + buffer.readUInt32BE();
  const { status, headers } = JSON.parse(buffer.toString("utf8", 4, bodyAt)) as Omit<KeptAnswer, "body">;
  return { status, headers, body: buffer.subarray(bodyAt) };
}
