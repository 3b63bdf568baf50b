/** API keys: created by a wallet's signature over a challenge, listed, rotated, revoked. */
import {
  apiKeySchema,
  challengeRequestSchema,
  challengeSchema,
  createKeyRequestSchema,
  currentKeySchema,
  keyListSchema,
  newKeySchema,
  rotateKeyRequestSchema,
} from "turnpike/facilitator";
import { z } from "zod";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import { createRateLimit } from "../rate-limit";
import { ownOriginOf } from "../request";
import type { ApiServices } from "../services";

/** For anyone, limited by address: a contract wallet's signature costs a request to the chain. */
const SIGNINGS_PER_MINUTE = 60;

export function keyEndpoints(services: ApiServices): Endpoint[] {
  const { keys } = services.providers;
  const signings = createRateLimit(SIGNINGS_PER_MINUTE, services.monotonicMs);
  return [
    endpoint({
      method: "post",
      path: "/keys/challenge",
      tag: "keys",
      summary: "What the provider's wallet has to sign for an API key: typed data, or `message` (EIP-4361).",
      body: challengeRequestSchema,
      answers: { 200: challengeSchema },
      async handle({ body, origin, site }) {
        signings.take(origin.address);
        return { status: 200, body: await keys.challenge(body, ownOriginOf(services.publicUrl, site)) };
      },
    }),
    endpoint({
      method: "post",
      path: "/keys",
      tag: "keys",
      summary: "Create an API key for the provider whose wallet signed a challenge. The key is shown once.",
      body: createKeyRequestSchema,
      answers: { 201: newKeySchema },
      async handle({ body, origin, site }) {
        signings.take(origin.address);
        return { status: 201, body: await keys.create(body, origin, ownOriginOf(services.publicUrl, site)) };
      },
    }),
    endpoint({
      method: "get",
      path: "/keys",
      tag: "keys",
      summary: "The provider's API keys, without their secrets.",
      admission: admissionTo(services, "keys", { isShared: true }),
      answers: { 200: keyListSchema },
      handle: async ({ caller }) => ({ status: 200, body: { keys: await keys.list(caller) } }),
    }),
    endpoint({
      method: "get",
      path: "/keys/current",
      tag: "keys",
      summary: "The provider and the scopes of the key of this request.",
      admission: admissionTo(services, "any", { isShared: true }),
      answers: { 200: currentKeySchema },
      async handle({ caller: { provider, keyId: id, scopes, isOperator } }) {
        return { status: 200, body: { id, provider, scopes: [...scopes], isOperator } };
      },
    }),
    endpoint({
      method: "post",
      path: "/keys/rotate",
      tag: "keys",
      summary: "A successor of the key that asks, which goes on for `overlapSec`.",
      admission: admissionTo(services, "any", { isShared: true }),
      body: rotateKeyRequestSchema,
      answers: { 201: newKeySchema },
      handle: async ({ caller, body }) => ({ status: 201, body: await keys.rotate(caller, body.overlapSec) }),
    }),
    endpoint({
      method: "delete",
      path: "/keys/{id}",
      tag: "keys",
      summary: "Revoke an API key for good: the one that asks, or with the scope `keys` any of the provider's.",
      admission: admissionTo(services, "any", { isShared: true }),
      params: z.object({ id: z.string().regex(/^[0-9a-f]{16}$/, "must be the id of an API key") }),
      answers: { 200: apiKeySchema },
      handle: async ({ caller, params }) => ({ status: 200, body: await keys.revoke(caller, params.id) }),
    }),
  ];
}
