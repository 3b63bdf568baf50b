/** Reads a token's name, decimals and signing domain. */
import type { Result } from "ethers";
import { type Address, checksum, isTurnpikeError } from "../protocol";
import { tokenInterface } from "./abi";
import { callView, NO_ANSWER, type Rpc } from "./rpc";

/** A token and its EIP-712 domain. */
export interface Token {
  readonly address: Address;
  /** of its EIP-712 domain */
  readonly name: string;
  readonly version: string;
  readonly decimals: number;
}

/** `eip712Domain()` where the token has it, else `name()` and `version()` (1 when absent). @throws Unavailable */
export async function loadToken(rpc: Rpc, address: Address): Promise<Token> {
  const view = (method: string) => callView(rpc, { to: address, iface: tokenInterface, method, args: [] });
  const optional = async (method: string): Promise<Result | undefined> => {
    try {
      return await view(method);
    } catch (error) {
      if (isTurnpikeError(error) && error.reason === NO_ANSWER) return undefined;
      throw error;
    }
  };
  const [named, decimals, domain] = await Promise.all([view("name"), view("decimals"), optional("eip712Domain")]);
  const version = domain ? String(domain.version) : String((await optional("version"))?.[0] ?? "1");
  return {
    address: checksum(address),
    name: domain ? String(domain.getValue("name")) : String(named[0]),
    version,
    decimals: Number(decimals[0]),
  };
}
