/** Refunds: signed by the payee or provider, or automatic from the account that the provider has named; and their lists. */
import { REFUND_ACCOUNT_ENDPOINTS, REFUND_ENDPOINTS, type RefundAccount } from "turnpike/facilitator";
import { type Address, type Hex, paymentIdOf, refundedIdOf } from "turnpike/protocol";
import type { RefundOutcome } from "../../payments";
import { type Endpoint, ok, routes } from "../endpoint";
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
  const signed = routes(services, REFUND_ENDPOINTS, {
    async createRefund({ body, concerns }) {
      concerns(refundedIdOf(chain, body.target));
      const { from: payer, nonce } = body.authorization;
      const refundId = paymentIdOf({ chainId: network.chainId, token: body.token, payer, nonce });
      return answerOf(await untilDraining(payments.refund(body, { waitMs: authorizeWaitMs })), refundId);
    },
    async listRefunds({ params: { id }, concerns }) {
      concerns(id);
      return ok({ id, refunds: (await payments.refunds(id)).map(refundToWire) });
    },
  });
  const automatic = routes(services, REFUND_ACCOUNT_ENDPOINTS, {
    async refundPayment({ caller: { provider }, params: { id: paymentId }, concerns }) {
      concerns(paymentId);
      const refunding = payments.refundAutomatically({ paymentId, provider }, { waitMs: authorizeWaitMs });
      return answerOf(await untilDraining(refunding), paymentId);
    },
    async nameRefundAccount({ body, origin }) {
      signings.take(origin.address);
      return ok(accountToWire(await refundAccounts.name(body, origin)));
    },
    async listRefundAccounts({ caller }) {
      const { accounts, ...held } = await refundAccounts.list(caller.provider);
      return ok({ ...held, accounts: accounts.map(accountToWire) });
    },
    async revokeRefundAccount({ caller, params: { token } }) {
      return ok(accountToWire(await refundAccounts.revoke(caller, token)));
    },
  });
  return [...signed, ...automatic];
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
