/** Refunds: signed by the payee or provider, or automatic from the account that the provider has named; and their lists. */
import {
  nameRefundAccountSchema,
  pendingSchema,
  type RefundAccount,
  refundAccountListSchema,
  refundAccountSchema,
  refundListSchema,
  refundRequestSchema,
  refundResponseSchema,
} from "turnpike/facilitator";
import { type Address, addressSchema, type Hex, hash32Schema, paymentIdOf, refundedIdOf } from "turnpike/protocol";
import { z } from "zod";
import type { RefundOutcome } from "../../payments";
import { admissionTo } from "../admission";
import { type Endpoint, endpoint } from "../endpoint";
import { createRateLimit } from "../rate-limit";
import type { ApiServices } from "../services";
import { pending, refundToWire, withLife } from "./payments";

/** For anyone, limited by address: a contract wallet's signature costs a request to the chain. */
const SIGNINGS_PER_MINUTE = 60;

export function refundEndpoints(services: ApiServices): Endpoint[] {
  const { payments, providers, authorizeWaitMs, untilDraining, network } = services;
  const { refundAccounts } = providers;
  const chain = { chainId: network.chainId, turnpike: services.supported.turnpike as Address };
  const signings = createRateLimit(SIGNINGS_PER_MINUTE, services.monotonicMs);
  return [
    endpoint({
      method: "post",
      path: "/refunds",
      tag: "payments",
      summary: "Settle a signed refund of a payment, a debit or a charge. Safe to repeat.",
      body: refundRequestSchema,
      answers: { 200: refundResponseSchema, 202: pendingSchema },
      async handle({ body, concerns }) {
        concerns(refundedIdOf(chain, body.target));
        const { from: payer, nonce } = body.authorization;
        const refundId = paymentIdOf({ chainId: network.chainId, token: body.token, payer, nonce });
        return answerOf(await untilDraining(payments.refund(body, { waitMs: authorizeWaitMs })), refundId);
      },
    }),
    endpoint({
      method: "post",
      path: "/payments/{id}/refund",
      tag: "payments",
      summary: "Refund a whole payment from the account that its payee has named. Safe to repeat.",
      admission: admissionTo(services, "refunds"),
      params: z.object({ id: hash32Schema }),
      body: z.object({}),
      answers: { 200: refundResponseSchema, 202: pendingSchema },
      async handle({ caller: { provider }, params: { id: paymentId }, concerns }) {
        concerns(paymentId);
        const refunding = payments.refundAutomatically({ paymentId, provider }, { waitMs: authorizeWaitMs });
        return answerOf(await untilDraining(refunding), paymentId);
      },
    }),
    endpoint({
      method: "post",
      path: "/refund-accounts",
      tag: "payments",
      summary: "Name the account of a provider's automatic refunds, by the provider's signature.",
      body: nameRefundAccountSchema,
      answers: { 200: refundAccountSchema },
      async handle({ body, origin }) {
        signings.take(origin.address);
        return { status: 200, body: accountToWire(await refundAccounts.name(body, origin)) };
      },
    }),
    endpoint({
      method: "get",
      path: "/refund-accounts",
      tag: "payments",
      summary: "The accounts of the provider's automatic refunds, and what is used of their daily caps.",
      admission: admissionTo(services, "read"),
      answers: { 200: refundAccountListSchema },
      async handle({ caller }) {
        const { accounts, ...held } = await refundAccounts.list(caller.provider);
        return { status: 200, body: { ...held, accounts: accounts.map(accountToWire) } };
      },
    }),
    endpoint({
      method: "delete",
      path: "/refund-accounts/{token}",
      tag: "payments",
      summary: "End the provider's automatic refunds in a token, until another statement is signed.",
      admission: admissionTo(services, "refunds"),
      params: z.object({ token: addressSchema }),
      answers: { 200: refundAccountSchema },
      async handle({ caller, params: { token } }) {
        return { status: 200, body: accountToWire(await refundAccounts.revoke(caller, token)) };
      },
    }),
    endpoint({
      method: "get",
      path: "/refunds/{id}",
      tag: "payments",
      summary: "The settled refunds of a payment, a debit or a charge, by the id that they are counted under.",
      params: z.object({ id: hash32Schema }),
      answers: { 200: refundListSchema },
      async handle({ params: { id }, concerns }) {
        concerns(id);
        return { status: 200, body: { id, refunds: (await payments.refunds(id)).map(refundToWire) } };
      },
    }),
  ];
}

const accountToWire = ({ dailyCap, used, ...account }: RefundAccount) => ({
  ...account,
  dailyCap: dailyCap.toString(),
  used: used.toString(),
});

/** @param refundId of a refund without an outcome */
function answerOf(outcome: RefundOutcome | "draining", refundId: Hex) {
  if (outcome === "draining") return pending(refundId, 1);
  switch (outcome.kind) {
    case "settled": {
      const { kind: _settled, ...facts } = outcome;
      return { status: 200 as const, body: facts };
    }
    case "pending":
      return pending(outcome.refundId, outcome.retryAfterSec);
    case "failed":
      throw outcome.error;
    case "refused":
      throw withLife(outcome.error, outcome.liveUntilSec);
  }
}
