/** API keys: created by a wallet's signature over a challenge, listed, rotated, revoked; the log of what they did; labels. */
import { KEY_ENDPOINTS, LABEL_ENDPOINTS } from "turnpike/facilitator";
import { type Endpoint, ok, routes } from "../endpoint";
import { createRateLimit } from "../rate-limit";
import { ownOriginOf } from "../request";
import type { ApiServices } from "../services";

/** For anyone, limited by address: a contract wallet's signature costs a request to the chain. */
const SIGNINGS_PER_MINUTE = 60;

export function keyEndpoints(services: ApiServices): Endpoint[] {
  const { keys } = services.providers;
  const signings = createRateLimit(SIGNINGS_PER_MINUTE, services.monotonicMs);
  return routes(services, KEY_ENDPOINTS, {
    async createKeyChallenge({ body, origin, site }) {
      signings.take(origin.address);
      return ok(await keys.challenge(body, ownOriginOf(services.publicUrl, site)));
    },
    async createKey({ body, origin, site }) {
      signings.take(origin.address);
      return { status: 201, body: await keys.create(body, origin, ownOriginOf(services.publicUrl, site)) };
    },
    listKeys: async ({ caller }) => ok({ keys: await keys.list(caller) }),
    async getCurrentKey({ caller: { provider, keyId: id, scopes, isOperator } }) {
      return ok({ id, provider, scopes: [...scopes], isOperator });
    },
    rotateKey: async ({ caller, body }) => ({ status: 201, body: await keys.rotate(caller, body.overlapSec) }),
    revokeKey: async ({ caller, params }) => ok(await keys.revoke(caller, params.id)),
    async listAudit({ caller, query: { cursor, limit } }) {
      return ok(await services.providers.acts(caller, { before: cursor, limit }));
    },
    async noteAct({ caller, body }) {
      await services.providers.note(caller, body);
      return { status: 201, body: { noted: true as const } };
    },
  });
}

/** What a provider calls its payers and plans. */
export function labelEndpoints(services: ApiServices): Endpoint[] {
  const { labels } = services.providers;
  return routes(services, LABEL_ENDPOINTS, {
    listLabels: async ({ caller: { provider } }) => ok({ labels: await labels.list(provider) }),
    setLabel: async ({ caller, body }) => ok(await labels.set(caller, body)),
  });
}
