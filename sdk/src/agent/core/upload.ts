/**
 * Holds a request's body once, in the pieces in which it came, and sends it so that its progress is seen: fetch copies
 * what it is given whole, and shows nothing of how far it has come.
 */
import { concatBytes, sha256Of } from "../../protocol/hex";

type Piece = Uint8Array<ArrayBuffer>;

export interface HeldBody {
  readonly pieces: readonly Piece[];
  readonly byteLength: number;
}

/** A longer body is not copied, and is streamed where the runtime can. */
const LARGE_BYTES = 65_536;

/** Returns the bytes of a buffer or a view, which `Request` would copy; undefined for every other body. */
export function bytesOf(body: unknown): Piece | undefined {
  const isView = ArrayBuffer.isView(body) && body.buffer instanceof ArrayBuffer;
  if (!isView && !(body instanceof ArrayBuffer)) return undefined;
  const bytes = isView
    ? new Uint8Array(body.buffer as ArrayBuffer, body.byteOffset, body.byteLength)
    : new Uint8Array(body as ArrayBuffer);
  return bytes.byteLength > LARGE_BYTES ? bytes : bytes.slice();
}

export const held = (bytes: Piece): HeldBody => ({ pieces: [bytes], byteLength: bytes.byteLength });

/** Reads a body to its end. */
export async function readHeld(stream: ReadableStream<Uint8Array>): Promise<HeldBody> {
  const reader = stream.getReader();
  const pieces: Piece[] = [];
  let byteLength = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return { pieces, byteLength };
    pieces.push(value as Piece);
    byteLength += value.byteLength;
  }
}

export const hashOf = ({ pieces }: HeldBody): Uint8Array => sha256Of(pieces);

export const isLarge = (body: HeldBody | undefined): body is HeldBody =>
  body !== undefined && body.byteLength > LARGE_BYTES;

/** Returns whether this runtime's own fetch sends a stream of known length over any connection: Node's does. */
export function streamsUploads(): boolean {
  const { process } = globalThis as { readonly process?: { readonly versions?: { readonly undici?: string } } };
  return process?.versions?.undici !== undefined;
}

export type Upload = Pick<RequestInit, "body"> & { readonly duplex?: "half" };

/** Returns a body in one part. @param mayFollow fetch may have to send it again, for a redirect */
export function wholeOf(body: HeldBody, mayFollow: boolean): Upload {
  const [only] = body.pieces;
  // Node's fetch detaches bytes when it sends them, and then has none for a redirect.
  if (mayFollow || (isLarge(body) && body.pieces.length > 1)) return { body: new Blob([...body.pieces]) };
  return { body: only && body.pieces.length === 1 ? only : new Uint8Array(concatBytes(...body.pieces)) };
}

/** Returns a body that is read as it is sent. @param onProgress called with how much has been read */
export function streamOf({ pieces }: HeldBody, onProgress: (bytes: number) => void): Upload {
  const parts = partsOf(pieces);
  let bytes = 0;
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>): void => {
    onProgress(bytes);
    const { done, value } = parts.next();
    bytes += value?.byteLength ?? 0;
    if (done) controller.close();
    else controller.enqueue(value);
  };
  return { body: new ReadableStream({ pull }, { highWaterMark: 0 }), duplex: "half" };
}

function* partsOf(pieces: readonly Piece[]): Generator<Piece, undefined> {
  for (const piece of pieces) {
    for (let at = 0; at < piece.byteLength; at += LARGE_BYTES) yield piece.subarray(at, at + LARGE_BYTES);
  }
  return undefined;
}

/** What of an upload may still be on its way in the buffers of both ends, once it has been read here. */
const BUFFERED_BYTES = 4 * 1_024 * 1_024;

/** Milliseconds that an upload of so many bytes may last in silence: one second for each 64 kB. */
export const uploadMs = (bytes: number): number => Math.floor(bytes / 65_536) * 1_000;

/** The same where progress is seen: only what is buffered moves unseen. */
export const unseenMs = (bytes: number): number => uploadMs(Math.min(bytes, BUFFERED_BYTES));
