/** The contracts as typechain's classes for ethers, for programs that call them directly. */
export type { BatchSettler, Turnpike } from "./generated";
export { BatchSettler__factory, Turnpike__factory } from "./generated";
