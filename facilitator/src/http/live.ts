/**
 * Streams server-sent events to the dashboard: one line for each new event of the provider. A line names the event
 * only; clients fetch the figures separately.
 */
import type { Context } from "hono";
import { streamSSE } from "hono/streaming";
import { EVENT_ENDPOINTS } from "turnpike/facilitator";
import { TurnpikeError } from "turnpike/protocol";
import { admissionTo } from "./admission";
import { sendError } from "./errors";
import { addressOf, type RequestScope } from "./request";
import type { ApiServices } from "./services";

/** Maximum time between comments, so that no proxy considers the stream dead. */
const PULSE_MS = 15_000;

/** Maximum streams of one key; a browser opens one per tab. */
const MAX_STREAMS = 20;

const PAGE = 100;

const yes = (): boolean => true;

const no = (): boolean => false;

const { listEvents } = EVENT_ENDPOINTS;

const NEED = { scope: listEvents.scope, isShared: true } as const;

export function liveEvents(services: ApiServices): (context: Context<RequestScope>) => Promise<Response> {
  const { providers, happened, untilDraining } = services;
  const admission = admissionTo(services, listEvents);
  const open = new Map<string, number>();

  return async (context) => {
    context.set("route", "/events/live");
    try {
      const origin = { address: addressOf(context), requestId: context.get("requestId") };
      const authorization = context.req.header("authorization") ?? null;
      const caller = await admission.admit(authorization, origin);
      const { keyId } = caller;
      let after = await providers.newestEvents(caller);
      // Counted only when nothing before the stream can fail any more; the end of the stream releases it.
      const count = open.get(keyId) ?? 0;
      if (count >= MAX_STREAMS) throw new TurnpikeError("RateLimited", "this key has too many live streams open");
      open.set(keyId, count + 1);
      return streamSSE(context, async (stream) => {
        try {
          await stream.write(": live\n\n");
          while (!stream.aborted && !stream.closed) {
            const { events, next } = await providers.events({ owner: caller, after, limit: PAGE });
            // A key that was revoked or has expired since gets nothing more.
            if (!(await providers.admit(authorization, NEED, origin).then(yes, no))) break;
            for (const { type, subject } of events)
              await stream.writeSSE({ event: "happened", data: JSON.stringify({ type, subject }), id: next });
            after = next;
            if (events.length === PAGE) continue;
            if ((await untilDraining(happened(PULSE_MS))) === "draining") break;
            await stream.write(": pulse\n\n");
          }
        } finally {
          const left = (open.get(keyId) ?? 1) - 1;
          if (left > 0) open.set(keyId, left);
          else open.delete(keyId);
        }
      });
    } catch (error) {
      return sendError(context, error);
    }
  };
}
