/** A sandbox's own routes: its key for its page, and its clock. Mounted only when a sandbox is passed in. */
import { testClockSchema } from "turnpike/facilitator";
import { TurnpikeError } from "turnpike/protocol";
import { z } from "zod";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import { isOwnLocalPage, type Site } from "../request";
import type { ApiServices, Sandbox } from "../services";

const MAX_SECONDS = 366 * 86_400;

const advanceSchema = z.union([
  z.strictObject({ seconds: z.number().int().min(1).max(MAX_SECONDS) }),
  z.strictObject({ to: z.literal("next-renewal") }),
]);

export function sandboxEndpoints(services: ApiServices): Endpoint[] {
  const { sandbox } = services;
  return sandbox ? endpointsOf(services, sandbox) : [];
}

function endpointsOf(services: ApiServices, sandbox: Sandbox): Endpoint[] {
  const admission = admissionTo(services, "read");
  const tag = "sandbox";
  return [
    endpoint({
      method: "post",
      path: "/sandbox/session",
      tag,
      summary: "The key of the sandbox's provider, for the sandbox's own page on this machine.",
      body: z.strictObject({}),
      answers: { 200: z.object({ key: z.string() }) },
      async handle({ site }) {
        requireOwnPage(site);
        return { status: 200, body: { key: sandbox.providerKey() } };
      },
    }),
    endpoint({
      method: "get",
      path: "/sandbox/clock",
      tag,
      summary: "The chain's time, where it is running to, and when something renews next.",
      admission,
      answers: { 200: testClockSchema },
      handle: async () => ({ status: 200, body: await sandbox.clock() }),
    }),
    endpoint({
      method: "post",
      path: "/sandbox/clock",
      tag,
      summary: "Move the chain's time: renewals, dunning and webhooks happen on the way.",
      admission,
      body: advanceSchema,
      answers: { 202: testClockSchema },
      async handle({ body, site }) {
        // No other site's page can send the key's header. A page that obtained the key is still of another origin.
        if (site.page !== undefined) requireOwnPage(site);
        if (!(await sandbox.advance(body)))
          throw new TurnpikeError("RateLimited", "the clock is moving already", { retryAfterSec: 1 });
        return { status: 202, body: await sandbox.clock() };
      },
    }),
  ];
}

function requireOwnPage(site: Site): void {
  if (!isOwnLocalPage(site))
    throw new TurnpikeError("AccessRefused", "only the sandbox's own page on this machine may ask for this");
}
