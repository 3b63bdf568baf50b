/**
 * A chain for tests: real blocks over real HTTP. The chains of a worker live in one process, since a node takes seconds
 * of processor to start and a chain in a running one takes milliseconds. They share nothing else.
 */
import { attachChain, type ChainOptions, type LocalChain, startChain as startNode } from "../../scripts/sandbox/chain";
import { chainHost } from "./chain-host";

export { type Chain, type ChainOptions, freePort, type LocalChain, testKey } from "../../scripts/sandbox/chain";

export interface TestChainOptions extends Pick<ChainOptions, "chainId" | "blockMs" | "hardfork"> {
  /** in a process of its own, which can be suspended */
  readonly own?: boolean;
}

export async function startChain({ own = false, ...options }: TestChainOptions = {}): Promise<LocalChain> {
  if (own) return startNode(options);
  const { chainId = 31_337, blockMs, hardfork } = options;
  const { port, stop } = await chainHost().start({ chainId, blockMs, hardfork });
  const refuse = (): never => {
    throw new TypeError("Only a chain that is started with `own: true` can be suspended.");
  };
  return attachChain(
    { rpcUrl: `http://127.0.0.1:${port}`, chainId, blockMs },
    { suspend: refuse, resume: refuse, stop },
  );
}
