/**
 * Has a standard payload settled for one purchase, and decides by what may be served: the grant that a pinned signer made
 * for this very purchase, and with `verify: "onchain"` the transfer itself. A transfer alone buys nothing: authorizations
 * are public in calldata, so whoever presents one may be a stranger, here or at another gate.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { findSettlement } from "../chain/settlement";
import type { X402RequestWire } from "../facilitator/x402";
import {
  ConfigError,
  type Hex,
  hexToBytes,
  hmacSha256,
  isGrantSigned,
  isHash32,
  keccakText,
  toHex,
  Unavailable,
  utf8ToBytes,
} from "../protocol";
import type { Confirmation, PaymentCase } from "./claim-payment";
import type { OneTimePayment } from "./payment";
import { recoverSigner } from "./recover-signer";
import type { Room } from "./room";

export interface StandardPurchase {
  readonly payment: OneTimePayment;
  readonly nonce: Hex;
  readonly settlement: X402RequestWire;
}

const ON_CHAIN_RETRY_MS = 400;
const RETRY_SEC = 2;

/** @throws Unavailable when nobody can tell: asking again with the same payload never pays twice */
export async function settleStandard(at: PaymentCase, purchase: StandardPurchase): Promise<Confirmation> {
  const { room, resource } = at;
  const { payment, nonce, settlement } = purchase;
  await requireGrants(room);
  const grantId = await grantIdOf(at, payment.paymentId);
  const outcome = await room.facilitator.x402Settle({ ...settlement, grant: { id: grantId, resource } });
  if (!outcome.success) {
    if (outcome.errorReason === "settlement_pending") {
      throw new Unavailable("The payment is not settled yet: send the same payload again.", {
        retryAfterSec: RETRY_SEC,
      });
    }
    return { kind: "faulty", reason: outcome.errorReason };
  }
  const { transaction, grant } = outcome;
  if (!isHash32(transaction)) {
    throw new Unavailable("The Facilitator named no transaction for a settled payment.", { retryAfterSec: RETRY_SEC });
  }
  const { settings } = room;
  const { token, payTo, amount, paymentId } = payment;
  const facts = { chainId: settings.network.chainId, token, paymentId, payTo, amount, transaction, grantId };
  const isGranted =
    grant !== undefined &&
    settings.facilitator?.signers.has(grant.facilitator) === true &&
    isGrantSigned(
      { ...facts, resourceHash: keccakText(resource), facilitator: grant.facilitator },
      grant.signature,
      recoverSigner,
    );
  if (!isGranted) {
    throw new Unavailable(
      "The Facilitator's answer is not signed for this purchase by a signer of `facilitator.signers`: nothing is served by it.",
      { retryAfterSec: 10 },
    );
  }
  if (settings.verify === "onchain") await untilOnChain(room, payment, nonce, transaction);
  return { kind: "settled", transaction };
}

/**
 * The same for the same purchase, whichever process of this store asks, and before as after a crash. Another store never
 * has the key, so a gate that shares everything but its claims cannot be granted this gate's payment.
 */
async function grantIdOf({ room, request, resource, bodyHash }: PaymentCase, paymentId: Hex): Promise<Hex> {
  const purchase = JSON.stringify(["grant", paymentId, request.method, resource, bodyHash ?? null]);
  return toHex(hmacSha256(hexToBytes(await room.claims.grantKey()), utf8ToBytes(purchase)));
}

/** @throws Unavailable where the Facilitator signs no grants: the payer would pay, and could not be served */
async function requireGrants({ facilitator, settings }: Room): Promise<void> {
  if (await facilitator.signsGrants()) return;
  throw new Unavailable(
    `The Facilitator at ${settings.facilitator?.url} signs no payment grants: standard x402 payloads need one that does.`,
    { retryAfterSec: 60 },
  );
}

/** The gate's own node may be behind the Facilitator's: it is asked until it shows the transfer, for a while. */
async function untilOnChain(room: Room, payment: OneTimePayment, nonce: Hex, transaction: Hex): Promise<void> {
  if (!room.rpc) throw new ConfigError('rpcUrl is not set (TURNPIKE_RPC_URL): verify "onchain" reads the chain');
  const { token, payer, payTo, amount } = payment;
  const { confirmations, settleWaitMs } = room.settings;
  const untilMs = performance.now() + settleWaitMs;
  for (;;) {
    const found = await findSettlement(room.rpc, { token, payer, payTo, amount, nonce, transaction, confirmations });
    if (found === "settled") return;
    if (performance.now() >= untilMs) {
      const what =
        found === "shallow" ? `is not ${confirmations} blocks deep yet` : "is not on the chain that is read here";
      throw new Unavailable(`The payment's transfer ${what}: send the same payload again.`, {
        retryAfterSec: RETRY_SEC,
      });
    }
    await sleep(ON_CHAIN_RETRY_MS);
  }
}
