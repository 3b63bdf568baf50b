/** Subscriptions with allowances on a real chain, and an operator's key that may debit them. */
import { randomBytes } from "node:crypto";
import { Contract, hexlify, keccak256, type Wallet, ZeroHash } from "ethers";
import {
  connectRpc,
  createOperator,
  type Operator,
  type OperatorOptions,
  tokenInterface,
  turnpikeInterface,
} from "turnpike/chain";
import type { Address, Hex } from "turnpike/protocol";
import { signupArgs } from "./acts";
import type { Chain } from "./chain";
import { deployAll } from "./deployment";

export const INTERVAL_SEC = 30 * 86_400;

export interface MeteredWorld {
  readonly turnpike: Contract;
  readonly provider: Wallet;
  readonly operator: Wallet;
  readonly payTo: string;
  readonly token: Contract;
  readonly planId: Hex;
  subscribe(subscriber: Wallet, maxOverage: bigint): Promise<Hex>;
  /** everything debited so far, from the log */
  debited(): Promise<{ idHash: string; amount: bigint; index: number }[]>;
  createOperator(options?: Partial<OperatorOptions>): Operator;
  close(): void;
}

export async function startMeteredWorld(chain: Chain): Promise<MeteredWorld> {
  const contracts = await deployAll(chain);
  const [provider, operator] = [await chain.wallet("provider"), await chain.wallet("operator")];
  const payTo = (await chain.wallet("treasury")).address;
  const turnpike = new Contract(contracts.turnpike, turnpikeInterface, provider);
  const token = new Contract(contracts.token, tokenInterface, provider);
  const terms = {
    token: contracts.token,
    amount: 1_000_000n,
    interval: INTERVAL_SEC,
    months: false,
    grace: 86_400,
    payTo,
  };
  const planId = await turnpike.getFunction("createPlan").staticCall(terms, ZeroHash, "{}");
  await (await turnpike.getFunction("createPlan")(terms, ZeroHash, "{}")).wait();
  await (await turnpike.getFunction("setOperator")(planId, operator.address, 1)).wait();
  const rpc = connectRpc({ urls: chain.rpcUrl, chainId: chain.chainId });

  return {
    turnpike,
    provider,
    operator,
    payTo,
    token,
    planId,
    async subscribe(subscriber, maxOverage) {
      await contracts.mint(subscriber.address, 10n ** 15n);
      const approve = new Contract(contracts.token, ["function approve(address,uint256)"], subscriber);
      await (await approve.getFunction("approve")(contracts.turnpike, 2n ** 255n)).wait();
      const secretHash = keccak256(hexlify(randomBytes(32)));
      const own = turnpike.connect(subscriber) as Contract;
      await (
        await own.getFunction("subscribe")(...signupArgs(subscriber.address, { planId, secretHash, maxOverage }))
      ).wait();
      return turnpike.getFunction("idHashOf")(subscriber.address, secretHash);
    },
    async debited() {
      const logs = await turnpike.queryFilter("Debited", 0);
      return logs.flatMap((log) => {
        const parsed = turnpikeInterface.parseLog(log);
        if (!parsed) return [];
        return [{ idHash: parsed.args.idHash, amount: parsed.args.amount, index: Number(parsed.args.index) }];
      });
    },
    createOperator: (options = {}) =>
      createOperator({
        rpc,
        turnpike: contracts.turnpike as Address,
        chainId: chain.chainId,
        signer: operator.privateKey as Hex,
        ...options,
      }),
    close: () => rpc.close(),
  };
}
