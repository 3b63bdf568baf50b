/**
 * Places Permit2 and x402's proxies on a local chain, at their constant addresses. Permit2 is the real code; both proxies
 * are doubles that implement the interface (contracts/test/Permit2Proxies.sol), because their own code is on no registry.
 */
import { readFileSync } from "node:fs";
import path from "node:path";
import { type Address, EXACT_PERMIT2_PROXY, PERMIT2, UPTO_PERMIT2_PROXY } from "turnpike/protocol";
import type { Chain } from "./chain";
import permit2 from "./permit2-code.json";

const DOUBLES = path.resolve(__dirname, "../../artifacts/contracts/test/Permit2Proxies.sol");

const runtimeOf = (name: string): string =>
  JSON.parse(readFileSync(path.join(DOUBLES, `${name}.json`), "utf8")).deployedBytecode;

/** @param chain a hardhat or anvil chain */
export async function placePermit2({ provider }: Pick<Chain, "provider">): Promise<void> {
  const codes: readonly (readonly [Address, string])[] = [
    [PERMIT2, permit2.runtime],
    [EXACT_PERMIT2_PROXY, runtimeOf("ExactPermit2ProxyDouble")],
    [UPTO_PERMIT2_PROXY, runtimeOf("UptoPermit2ProxyDouble")],
  ];
  for (const [address, code] of codes) await provider.send("hardhat_setCode", [address, code]);
}
