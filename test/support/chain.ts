/** The chain that the sandbox runs on, for tests: real blocks over real HTTP. */
export {
  type Chain,
  type ChainOptions,
  freePort,
  type LocalChain,
  startChain,
  testKey,
} from "../../scripts/sandbox/chain";
