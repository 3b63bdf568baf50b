/**
 * Reads the body of a fetch-style response while it is withheld: whole, or as a stream where it is one, is too long or
 * takes too long.
 */
import { MAX_WITHHELD_BYTES, MAX_WITHHELD_MS } from "../core/payment";
import { readerOf, restOf } from "../replay/fetch-recorder";
import { isStream } from "../replay/keeper";

/** What a withheld response turned out to have. */
export type WithheldBody =
  | { readonly kind: "whole"; readonly bytes: Uint8Array }
  /** to be sent once its payment has settled, or cancelled */
  | { readonly kind: "stream"; readonly stream: ReadableStream<Uint8Array> | null }
  /** it broke off before its first byte left */
  | { readonly kind: "broken"; readonly error: unknown };

export async function readWithheld({ headers, body }: Response): Promise<WithheldBody> {
  if (!body) return { kind: "whole", bytes: new Uint8Array() };
  if (body.locked) return { kind: "stream", stream: body };
  const isLong = Number(headers.get("content-length") ?? 0) > MAX_WITHHELD_BYTES;
  // Of a stream the first byte alone: while there is none, it may still fail at no cost.
  const maxBytes = isLong || isStream(headers.get("content-type") ?? undefined) ? 0 : MAX_WITHHELD_BYTES;
  const reader = readerOf(body);
  const chunks: Uint8Array[] = [];
  let timer: NodeJS.Timeout | undefined;
  const isLate = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), MAX_WITHHELD_MS);
    timer.unref?.();
  });
  try {
    for (let bytes = 0; bytes <= maxBytes; ) {
      const reading = reader.read();
      const chunk = await Promise.race([reading, isLate]);
      if (!chunk) return { kind: "stream", stream: restOf(reader, chunks, reading) };
      if (chunk.done) return { kind: "whole", bytes: Buffer.concat(chunks) };
      chunks.push(chunk.value);
      bytes += chunk.value.byteLength;
    }
    return { kind: "stream", stream: restOf(reader, chunks) };
  } catch (error) {
    return { kind: "broken", error };
  } finally {
    clearTimeout(timer);
  }
}
