/** Reads the body of a Hono request, whose context caches what middlewares have read. */
import type { Context } from "hono";
import { bodyDropped, bodyTooLarge } from "../core/body-fault";
import { readAhead, unreadRequest } from "../core/fetch-body";
import type { BodyOfRequest } from "../core/request";

const REMEDY = "mount the gate before the middleware that reads it (a validator, c.req.json())";

type Cache = Context["req"]["bodyCache"];

export interface HonoBody extends BodyOfRequest {
  /** Undoes what callbacks did to the context's body, for the handler. */
  restore(): void;
}

export function honoBody(c: Context): HonoBody {
  const { req } = c;
  const original = { raw: req.raw, bodyCache: req.bodyCache };
  let bytes: Uint8Array | undefined;
  return {
    async read(maxBytes) {
      if (bytes || !req.raw.bodyUsed) {
        bytes = await readAhead(original.raw, maxBytes, REMEDY);
        return bytes;
      }
      const kept = await keptBytes(req.bodyCache);
      if (!kept) throw bodyDropped(REMEDY);
      if (kept.byteLength > maxBytes) throw bodyTooLarge(maxBytes);
      return kept;
    },
    raw() {
      if (bytes) {
        req.raw = unreadRequest(original.raw, bytes);
        req.bodyCache = {};
      }
      return c;
    },
    isRead: () => hasBody(req.method) && (req.raw.bodyUsed || Object.keys(req.bodyCache).length > 0),
    isLost: () => req.raw.bodyUsed && Object.keys(req.bodyCache).length === 0,
    restore() {
      if (!bytes) return;
      req.raw = original.raw;
      req.bodyCache = original.bodyCache;
    },
  };
}

/** Hono remembers the empty body of a GET like any other. */
const hasBody = (method: string): boolean => method !== "GET" && method !== "HEAD";

/** Returns the whole body from Hono's cache, where its own methods have read it. */
async function keptBytes({ arrayBuffer, text, blob }: Cache): Promise<Uint8Array | undefined> {
  const kept = (await (arrayBuffer ?? text ?? blob)) as unknown;
  if (typeof kept === "string") return new TextEncoder().encode(kept);
  if (kept instanceof ArrayBuffer) return new Uint8Array(kept);
  return kept instanceof Blob ? new Uint8Array(await kept.arrayBuffer()) : undefined;
}
