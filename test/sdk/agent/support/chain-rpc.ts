/** RPC endpoint of the simulated chain. An agent can read it instead of its Facilitator. */
import { AbiCoder, Interface, TypedDataEncoder } from "ethers";
import { type Hex, paymentIdOf } from "turnpike/protocol";
import { type StandIn, serve } from "./servers";
import { CHAIN_ID, type Chain, TOKEN, TOKEN_DOMAIN } from "./world";

const token = new Interface([
  "function balanceOf(address) view returns (uint256)",
  "function authorizationState(address, bytes32) view returns (bool)",
  "function DOMAIN_SEPARATOR() view returns (bytes32)",
]);

interface Call {
  readonly to: string;
  readonly data: string;
}

/** the newest block's number in the RPC's form */
export const HEAD = "0x2a";

/** @param balances of other tokens than the chain's own */
export function startChainRpc(chain: Chain, balances: Readonly<Record<string, bigint>> = {}): Promise<StandIn> {
  function call({ data, to }: Call): string {
    const { name, args } = token.parseTransaction({ data }) ?? {};
    if (name === "balanceOf")
      return AbiCoder.defaultAbiCoder().encode(["uint256"], [balances[to.toLowerCase()] ?? chain.balance]);
    if (name === "DOMAIN_SEPARATOR") {
      return TypedDataEncoder.hashDomain({ ...TOKEN_DOMAIN, chainId: CHAIN_ID, verifyingContract: to });
    }
    const [payer, nonce] = args as unknown as [Hex, Hex];
    const isUsed = chain.find(paymentIdOf({ chainId: CHAIN_ID, token: TOKEN, payer, nonce })) !== undefined;
    return AbiCoder.defaultAbiCoder().encode(["bool"], [isUsed]);
  }

  return serve(({ body }) => {
    const { id, method, params } = JSON.parse(body) as { id: number; method: string; params: [Call] };
    const results: Record<string, () => unknown> = {
      eth_chainId: () => `0x${CHAIN_ID.toString(16)}`,
      eth_getBlockByNumber: () => ({ number: HEAD, timestamp: `0x${chain.nowSec.toString(16)}` }),
      eth_call: () => call(params[0]),
    };
    return { status: 200, json: { jsonrpc: "2.0", id, result: results[method]?.() } };
  });
}
