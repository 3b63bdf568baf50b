/** Token accounts: what an agent without an RPC must know before it signs, and signed permits. */
import {
  accountSchema,
  pendingSchema,
  permitRequestSchema,
  permitResponseSchema,
  subscriptionListSchema,
} from "turnpike/facilitator";
import { addressSchema } from "turnpike/protocol";
import { z } from "zod";
import { type Endpoint, endpoint } from "../endpoint";
import { requireOwnNetwork } from "../request";
import type { ApiServices } from "../services";

export function accountEndpoints({ subscriptions, authorizeWaitMs, monotonicMs, network }: ApiServices): Endpoint[] {
  const { permits } = subscriptions;
  return [
    endpoint({
      method: "get",
      path: "/accounts/{address}",
      tag: "accounts",
      summary: "Balance, approval and permit nonce of an account on a token.",
      params: z.object({ address: addressSchema }),
      query: z.object({ token: addressSchema }),
      answers: { 200: accountSchema },
      handle: async ({ params, query }) => ({ status: 200, body: await permits.account(params.address, query.token) }),
    }),
    endpoint({
      method: "get",
      path: "/accounts/{address}/subscriptions",
      tag: "accounts",
      summary: "An account's subscriptions, the newest first.",
      params: z.object({ address: addressSchema }),
      answers: { 200: subscriptionListSchema },
      handle: async ({ params }) => ({ status: 200, body: await subscriptions.of(params.address) }),
    }),
    endpoint({
      method: "post",
      path: "/permits",
      tag: "accounts",
      summary: "Submit a signed EIP-2612 permit for Turnpike to the token. Safe to repeat.",
      body: permitRequestSchema,
      answers: { 200: permitResponseSchema, 202: pendingSchema },
      async handle({ body }) {
        requireOwnNetwork(body.network, network);
        const { token, owner } = body;
        const outcome = await permits.apply(body, monotonicMs() + authorizeWaitMs);
        if (outcome.kind === "done") {
          const { approval, transaction } = outcome;
          return {
            status: 200,
            body: { token, owner, approval: approval.toString(), ...(transaction && { transaction }) },
          };
        }
        return {
          status: 202,
          body: { status: "pending" as const, id: outcome.id },
          headers: { "retry-after": "1" },
        };
      },
    }),
  ];
}
