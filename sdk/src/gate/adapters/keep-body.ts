/** Keeps the bytes of bodies whose parser runs before a gate with `bind: "body"`. */
import type { IncomingMessage } from "node:http";

/**
 * Keeps a body's bytes as `request.rawBody`: `express.json({ verify: keepBody })`, and likewise `urlencoded()` and any
 * other parser of body-parser.
 */
export function keepBody(request: IncomingMessage, _response: unknown, bytes: Uint8Array): void {
  Object.assign(request, { rawBody: bytes });
}
