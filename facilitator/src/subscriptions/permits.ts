/** Reads token accounts and submits permits through the relayer. */
import { bytesPermitInterface, tokenInterface } from "turnpike/chain";
import type { AccountWire, PermitFields } from "turnpike/facilitator";
import { type Address, type Clock, type Hex, TurnpikeError } from "turnpike/protocol";
import { type FacilitatorConfig, findToken } from "../config";
import type { TokenConfig } from "../config/chain";
import type { Relayer } from "../relayer";
import type { ActSender } from "./act-sender";
import { type ActCall, actKeyOf, isKeySignature, PERMIT_GAS, splitSignature } from "./acts";

export interface SignedPermit extends PermitFields {
  readonly token: Address;
  readonly owner: Address;
}

export type ApplyOutcome =
  | { readonly kind: "done"; readonly approval: bigint; readonly transaction?: Hex }
  | { readonly kind: "pending"; readonly id: Hex };

export interface Permits {
  /**
   * Refuses an account that holds less than the least amount of every token: new wallets are free to create, and an act
   * that moves nothing costs the relayer gas.
   * @param tokens default: all that are served
   * @throws InsufficientFunds
   */
  requireFunds(account: Address, tokens?: readonly TokenConfig[]): Promise<void>;
  /** @param spender whose approval is read; default Turnpike */
  account(address: Address, token: Address, spender?: Address): Promise<AccountWire>;
  /**
   * Submits the permit to the token. A permit that someone else submitted first counts as well.
   * @throws TurnpikeError
   */
  apply(permit: SignedPermit, untilMs: number): Promise<ApplyOutcome>;
}

export interface PermitDeps {
  readonly config: FacilitatorConfig;
  readonly relayer: Relayer;
  readonly clock: Clock;
  readonly sender: ActSender;
}

export function createPermits({ config, relayer, clock, sender }: PermitDeps): Permits {
  const read = async (token: Address, name: "balanceOf" | "allowance" | "nonces", args: Address[]): Promise<bigint> => {
    const data = tokenInterface.encodeFunctionData(name, args) as Hex;
    const answer = await relayer.read({ to: token, data });
    return tokenInterface.decodeFunctionResult(name, answer)[0] as bigint;
  };
  const approvalOf = (token: Address, owner: Address, spender = config.turnpike) =>
    read(token, "allowance", [owner, spender]);

  async function requireFunds(account: Address, tokens: readonly TokenConfig[] = config.tokens): Promise<void> {
    const balances = await Promise.all(tokens.map(({ address }) => read(address, "balanceOf", [account])));
    if (balances.some((balance, place) => balance >= (tokens[place]?.minAmount ?? 0n))) return;
    throw new TurnpikeError("InsufficientFunds");
  }

  return {
    requireFunds,

    async account(address, tokenAddress, spender) {
      const token = requireToken(config, tokenAddress);
      const [balance, approval, permitNonce] = await Promise.all([
        read(token.address, "balanceOf", [address]),
        approvalOf(token.address, address, spender),
        // A token without permits has no such function. The answer then has no nonce.
        read(token.address, "nonces", [address]).catch((error: unknown) => {
          if (error instanceof TurnpikeError && error.code === "Unavailable") throw error;
          return undefined;
        }),
      ]);
      return {
        address,
        network: config.network.name,
        chainId: config.chainId,
        token: token.address,
        tokenName: token.name,
        tokenVersion: token.version,
        balance: balance.toString(),
        approval: approval.toString(),
        ...(permitNonce === undefined ? {} : { permitNonce: permitNonce.toString() }),
        chainTimeSec: clock.nowSec(),
      };
    },

    async apply(permit, untilMs) {
      const token = requireToken(config, permit.token);
      const { owner } = permit;
      const call = permitCall(permit, config.turnpike);
      const simulation = await relayer.simulate({ to: token.address, ...call, gas: PERMIT_GAS });
      if (simulation.kind === "reverted") {
        const approval = await approvalOf(token.address, owner);
        if (approval >= permit.value) return { kind: "done", approval };
        throw refusalOf(permit, simulation.error.text, clock);
      }
      const key = actKeyOf("permit", token.address, permit.signature);
      const outcome = await sender.send(
        {
          name: "permit",
          key,
          objectId: token.address,
          signer: owner,
          to: token.address,
          prepare: async () => {
            await requireFunds(owner, [token]);
            await sender.simulate(token.address, call);
            return call;
          },
        },
        untilMs,
      );
      if (outcome.kind === "pending") return { kind: "pending", id: key };
      const { transaction } = outcome;
      return { kind: "done", approval: await approvalOf(token.address, owner), transaction };
    },
  };
}

function permitCall(permit: SignedPermit, spender: Address): ActCall {
  const terms = [permit.owner, spender, permit.value, permit.deadline] as const;
  if (!isKeySignature(permit.signature)) {
    const data = bytesPermitInterface.encodeFunctionData("permit", [...terms, permit.signature]) as Hex;
    return { data, gasLimit: PERMIT_GAS };
  }
  const { v, r, s } = splitSignature(permit);
  return { data: tokenInterface.encodeFunctionData("permit", [...terms, v, r, s]) as Hex, gasLimit: PERMIT_GAS };
}

/** Maps a token's revert text to a reason. Texts differ by token, so only an expired deadline is distinguished. */
function refusalOf({ deadline, owner }: SignedPermit, text: string | undefined, clock: Clock): TurnpikeError {
  if (deadline < BigInt(clock.nowSec())) {
    return new TurnpikeError("SignatureExpired", undefined, { details: { deadline: deadline.toString() } });
  }
  return new TurnpikeError(
    "InvalidSignature",
    `The token refuses the permit${text ? ` (${text.slice(0, 100)})` : ""}: check its signature, value and nonce.`,
    { details: { signer: owner } },
  );
}

function requireToken(config: FacilitatorConfig, address: Address): TokenConfig {
  const token = findToken(config, address);
  if (token) return token;
  throw new TurnpikeError("PaymentNotAllowed", `token ${address} is not served here`, { reason: "token" });
}
