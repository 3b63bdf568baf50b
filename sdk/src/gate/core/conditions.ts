/**
 * Takes the conditions off a request that pays once: a handler, or a middleware around it, would answer 304, without
 * what was bought. Those of a write stay: without them it could overwrite what its client has not seen.
 */
import type { IncomingMessage } from "node:http";

const CONDITIONS = ["if-none-match", "if-modified-since"] as const;

/** The message's three forms of its headers are each made when they are first asked for. */
export function dropFromMessage(message: IncomingMessage): void {
  const { headers, headersDistinct } = message;
  if (CONDITIONS.every((name) => headers[name] === undefined)) return;
  for (const name of CONDITIONS) {
    delete headers[name];
    // HTTP/2's messages have no such form.
    if (headersDistinct) delete headersDistinct[name];
  }
  const { rawHeaders } = message;
  for (let at = rawHeaders.length - 2; at >= 0; at -= 2) {
    if (isCondition(rawHeaders[at] ?? "")) rawHeaders.splice(at, 2);
  }
}

const isCondition = (name: string): boolean => CONDITIONS.some((each) => each === name.toLowerCase());

export function dropFromRequest(request: Request): void {
  const { headers } = request;
  const present = CONDITIONS.filter((name) => headers.has(name));
  if (present.length === 0) return;
  try {
    for (const name of present) headers.delete(name);
  } catch {
    // The platform locks the headers of what came over the network: the request shows a copy.
    const copy = new Headers([...headers].filter(([name]) => !isCondition(name)));
    Object.defineProperty(request, "headers", { value: copy, configurable: true });
  }
}
