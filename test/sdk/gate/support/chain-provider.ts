/** A provider on a test's own chain: what quotes, subscriptions and payments are made of is really there. */
import { Contract, Wallet } from "ethers";
import type { Provider, ProviderOptions } from "turnpike/gate";
import { type AcceptEntryWire, type Hex, parseMemo, paymentNonce, transferTypedData } from "turnpike/protocol";
import { keyOf, type SettleBody, type SmallFacilitator, testProvider } from "../../../support/gate";
import type { SubscriptionWorld } from "../../../support/subscriptions";

export function optionsOn({ contracts, rpc }: SubscriptionWorld, more: ProviderOptions = {}): ProviderOptions {
  const { token, tokenName, tokenVersion, turnpike } = contracts;
  return {
    token: { address: token, name: tokenName, version: tokenVersion },
    rpcUrl: rpc.url,
    turnpike,
    pollMs: 50,
    clock: undefined as never,
    ...more,
  };
}

export const providerOn = (
  world: SubscriptionWorld,
  facilitator: SmallFacilitator,
  more: ProviderOptions = {},
): Provider => testProvider(facilitator, optionsOn(world, more));

export interface OnChainPayment {
  readonly transaction: Hex;
  readonly blockNumber: number;
  /** unix seconds */
  readonly settledAt: number;
}

/** EIP-3009, as relayers call it. */
export const TRANSFER =
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes signature)";

/** Pays one entry of a 402 as the payer signs it, whichever account sends it. @param amount what is really paid */
export async function payOnChain(
  { chain, contracts }: SubscriptionWorld,
  entry: AcceptEntryWire,
  amount = BigInt(entry.amount ?? "0"),
): Promise<OnChainPayment> {
  const payer = new Wallet(keyOf("payer"));
  const relayer = await chain.wallet("relayer");
  await contracts.mint(payer.address, amount);
  const nonce = paymentNonce(parseMemo(entry.memo)?.ref ?? "", entry.resource ?? "");
  const authorization = {
    from: payer.address as Hex,
    to: entry.payTo as Hex,
    value: amount,
    validAfter: 0n,
    validBefore: 2n ** 40n,
    nonce,
  };
  const domain = { chainId: chain.chainId, token: contracts.token };
  const typed = transferTypedData(
    { ...domain, name: contracts.tokenName, version: contracts.tokenVersion },
    authorization,
  );
  const signature = await payer.signTypedData(typed.domain as never, typed.types as never, typed.message);
  const send = new Contract(contracts.token, [TRANSFER], relayer).getFunction("transferWithAuthorization");
  const receipt = await (await send(...Object.values(authorization), signature)).wait();
  const block = await chain.provider.getBlock(receipt.blockNumber);
  return { transaction: receipt.hash, blockNumber: receipt.blockNumber, settledAt: block?.timestamp ?? 0 };
}

/** Settles a payment as a relayer does. @param amount the amount that is transferred, in another way */
export async function settleOnChain(
  { chain, contracts }: SubscriptionWorld,
  asked: SettleBody,
  amount?: bigint,
): Promise<Hex> {
  const { authorization, signature } = asked.paymentPayload.payload as unknown as {
    authorization: Record<string, string>;
    signature: string;
  };
  const relayer = await chain.wallet("relayer");
  await contracts.mint(authorization.from as Hex, BigInt(authorization.value as string));
  const send = new Contract(
    contracts.token,
    [TRANSFER, "function transfer(address to, uint256 amount) returns (bool)"],
    relayer,
  );
  if (amount !== undefined) {
    await contracts.mint(relayer.address as Hex, amount);
    return (await (await send.getFunction("transfer")(authorization.to, amount)).wait()).hash;
  }
  const { from, to, value, validAfter, validBefore, nonce } = authorization;
  const sent = await send.getFunction("transferWithAuthorization")(
    from,
    to,
    value,
    validAfter,
    validBefore,
    nonce,
    signature,
  );
  return (await sent.wait()).hash;
}
