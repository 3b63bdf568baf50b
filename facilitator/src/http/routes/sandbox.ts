/** A sandbox's own routes: its key for its page, and its clock. Mounted only when a sandbox is passed in. */
import { SANDBOX_ENDPOINTS } from "turnpike/facilitator";
import { TurnpikeError } from "turnpike/protocol";
import { type Endpoint, ok, routes } from "../endpoint";
import { isOwnLocalPage, type Site } from "../request";
import type { ApiServices } from "../services";

export function sandboxEndpoints(services: ApiServices): Endpoint[] {
  const { sandbox } = services;
  if (!sandbox) return [];
  return routes(services, SANDBOX_ENDPOINTS, {
    async createSandboxSession({ site }) {
      requireOwnPage(site);
      return ok({ key: sandbox.providerKey() });
    },
    getSandboxClock: async () => ok(await sandbox.clock()),
    async moveSandboxClock({ body, site }) {
      // No other site's page can send the key's header. A page that obtained the key is still of another origin.
      if (site.page !== undefined) requireOwnPage(site);
      if (!(await sandbox.advance(body)))
        throw new TurnpikeError("RateLimited", "the clock is moving already", { retryAfterSec: 1 });
      return { status: 202, body: await sandbox.clock() };
    },
  });
}

function requireOwnPage(site: Site): void {
  if (!isOwnLocalPage(site))
    throw new TurnpikeError("AccessRefused", "only the sandbox's own page on this machine may ask for this");
}
