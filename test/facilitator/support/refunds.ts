/** Signed refunds in their wire form. */
import {
  apiKeyTypedData,
  type NameRefundAccount,
  type RefundRequestWire,
  refundAccountDigest,
} from "turnpike/facilitator";
import {
  type Address,
  addressOfKey,
  type Hex,
  type RefundTarget,
  refundedIdOf,
  refundNonce,
  signDigest,
  transferTypedData,
  typedDataDigest,
} from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import type { RefundRequest } from "../../../facilitator/src/payments";
import { createKeys } from "../../../facilitator/src/providers/keys";
import { createRefundAccounts, type RefundAccounts } from "../../../facilitator/src/providers/refund-accounts";
import { testKey } from "../../support/chain";
import type { FacilitatorWorld, Payer } from "../../support/facilitator";
import { authorizationToWire } from "./payments";

export interface RefundFields {
  readonly account: Payer;
  readonly to: Address;
  readonly amount: bigint;
  readonly target: RefundTarget;
  readonly index?: number;
  /** seconds from now, by the chain */
  readonly validForSec?: number;
}

export async function signRefund(world: FacilitatorWorld, fields: RefundFields): Promise<RefundRequest> {
  const { account, to, amount, target, index = 0, validForSec = 300 } = fields;
  const { contracts, chain } = world;
  const authorization = {
    from: account.address,
    to,
    value: amount,
    validAfter: 0n,
    validBefore: BigInt((await world.nowSec()) + validForSec),
    nonce: refundNonce(refundedIdOf({ chainId: chain.chainId, turnpike: contracts.turnpike }, target), index),
  };
  const { token, tokenName: name, tokenVersion: version, network } = contracts;
  const data = transferTypedData({ chainId: chain.chainId, token, name, version }, authorization);
  return { network, token, target, index, authorization, signature: signDigest(typedDataDigest(data), account.key) };
}

export const refundToWire = (refund: RefundRequest): RefundRequestWire => ({
  ...refund,
  authorization: authorizationToWire(refund.authorization),
});

/** A key of its own for a provider's automatic refunds, with money, and the setting that gives it to a Facilitator. */
export async function refundAccountFor(
  world: FacilitatorWorld,
  provider: Address,
  funds = 10_000_000n,
): Promise<{ readonly account: Payer; readonly settings: Readonly<Record<string, string>> }> {
  const account = await world.payer(funds);
  return { account, settings: { REFUND_KEYS: `${provider}=${account.key}` } };
}

export interface StatementFields {
  readonly provider: Payer;
  readonly account: Address;
  readonly dailyCap: bigint;
  readonly version?: number;
  /** seconds from now, by the chain */
  readonly validForSec?: number;
  /** who signs it; default the provider */
  readonly signer?: Payer;
  readonly chainId?: number;
  readonly facilitator?: Address;
  readonly token?: Address;
}

/** A provider's statement that names the account of its automatic refunds. */
export async function signStatement(world: FacilitatorWorld, fields: StatementFields): Promise<NameRefundAccount> {
  const { provider, account, dailyCap, version = 1, validForSec = 86_400, signer = provider } = fields;
  const { chainId = world.chain.chainId, token = world.contracts.token } = fields;
  const { facilitator = addressOfKey(testKey("proof signer") as Hex) } = fields;
  const expiresAt = (await world.nowSec()) + validForSec;
  const terms = { provider: provider.address, account, token, dailyCap, version, expiresAt };
  return { ...terms, signature: signDigest(refundAccountDigest({ ...terms, facilitator, chainId }), signer.key) };
}

/** An API key of a provider, with the scope that refunds. */
export async function refundKeyOf({ config, store, relayer }: Core, provider: Payer): Promise<string> {
  const { chain, proofSigner } = relayer;
  const facilitator = proofSigner.address;
  const keys = createKeys({ store, network: config.network, facilitator, chain, operators: [], nowMs: Date.now });
  const wanted = { provider: provider.address, name: "refunds", scopes: ["refunds" as const] };
  const { challenge, expiresAt, chainId } = await keys.challenge(wanted, undefined);
  const terms = { ...wanted, expiresAt, challenge };
  const data = apiKeyTypedData({ ...terms, facilitator, chainId });
  const signature = signDigest(typedDataDigest(data), provider.key);
  return (await keys.create({ ...terms, signature }, ORIGIN, undefined)).key;
}

/** The statements that a core accepts; without HTTP. */
export function refundAccountsOf({ config, store, relayer, indexer }: Core): RefundAccounts {
  return createRefundAccounts({
    config,
    store,
    chain: relayer.chain,
    facilitators: [relayer.proofSigner.address],
    signerOf: (provider) => relayer.refundSigner(provider),
    nowSec: () => indexer.clock.nowSec(),
  });
}

export const ORIGIN = { address: "127.0.0.1", requestId: "test" };
