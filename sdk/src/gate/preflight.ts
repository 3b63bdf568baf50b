/**
 * The CORS preflight of a gated route. A gate answers it by itself where `OPTIONS` reaches it; a route of one method
 * (`app.get(path, paymentGate(...))`) is never asked, and without this no page of another origin can pay it.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { PREFLIGHT } from "./answer";
import { setAbsent } from "./node-response";

/** Whether a browser asks leave: any other OPTIONS is the application's own matter. */
export function isPreflight(method: string | undefined, askedMethod: unknown, origin: unknown): boolean {
  return method === "OPTIONS" && askedMethod !== undefined && askedMethod !== null && Boolean(origin);
}

/** Middleware `(req, res, next)` that answers preflights as a gate does, for nothing, and lets all else through. */
export function preflight(): (request: IncomingMessage, response: ServerResponse, next: () => void) => void {
  return (request, response, next) => {
    const { origin, "access-control-request-method": asked } = request.headers;
    if (!isPreflight(request.method, asked, origin)) return next();
    response.statusCode = PREFLIGHT.status;
    setAbsent(response, PREFLIGHT.headers);
    response.end();
  };
}
