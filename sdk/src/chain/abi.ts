/** The contracts' interfaces as ethers reads them: Turnpike's and the settler's generated, the token's by hand. */
import { Interface } from "ethers/abi";
import { IBatchSettler__factory } from "./generated/factories/contracts/interfaces/IBatchSettler__factory";
import { ITurnpike__factory } from "./generated/factories/contracts/interfaces/ITurnpike__factory";
import { ITurnpikeLens__factory } from "./generated/factories/contracts/interfaces/ITurnpikeLens__factory";

/** The contract Turnpike, for ethers. */
export const turnpikeInterface = new Interface(ITurnpike__factory.abi);

/** The contract TurnpikeLens, for ethers: the views of Turnpike's records. @see lensAddressOf */
export const lensInterface = new Interface(ITurnpikeLens__factory.abi);

/** The contract BatchSettler, for ethers. */
export const batchSettlerInterface = new Interface(IBatchSettler__factory.abi);

/** What this project uses of a token: EIP-20, EIP-2612, EIP-3009, and the facts of its EIP-712 domain. */
export const tokenInterface = new Interface([
  "function name() view returns (string)",
  "function version() view returns (string)",
  "function decimals() view returns (uint8)",
  "function balanceOf(address account) view returns (uint256)",
  "function allowance(address owner, address spender) view returns (uint256)",
  "function nonces(address owner) view returns (uint256)",
  "function authorizationState(address authorizer, bytes32 nonce) view returns (bool)",
  "function DOMAIN_SEPARATOR() view returns (bytes32)",
  "function eip712Domain() view returns (bytes1 fields, string name, string version, uint256 chainId, address verifyingContract, bytes32 salt, uint256[] extensions)",
  "function permit(address owner, address spender, uint256 value, uint256 deadline, uint8 v, bytes32 r, bytes32 s)",
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)",
  "event Transfer(address indexed from, address indexed to, uint256 value)",
  "event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce)",
]);

/** The permit that some tokens have for contract wallets, whose signatures have any length. */
export const bytesPermitInterface = new Interface([
  "function permit(address owner, address spender, uint256 value, uint256 deadline, bytes signature)",
]);

const PERMIT_TRANSFER = "((address token, uint256 amount) permitted, uint256 nonce, uint256 deadline) permit";

const PERMIT_2612 = "(uint256 value, uint256 deadline, bytes32 r, bytes32 s, uint8 v) approval";

const EXACT_TERMS = `${PERMIT_TRANSFER}, address owner, (address to, uint256 validAfter) witness, bytes signature`;

const UPTO_TERMS = `${PERMIT_TRANSFER}, uint256 amount, address owner, (address to, address facilitator, uint256 validAfter) witness, bytes signature`;

/** x402's proxy for `exact` payments, for ethers. */
export const exactProxyInterface = new Interface([
  `function settle(${EXACT_TERMS})`,
  `function settleWithPermit(${PERMIT_2612}, ${EXACT_TERMS})`,
  "event Settled()",
  "event SettledWithPermit()",
]);

/** x402's proxy for `upto` payments, for ethers. */
export const uptoProxyInterface = new Interface([
  `function settle(${UPTO_TERMS})`,
  `function settleWithPermit(${PERMIT_2612}, ${UPTO_TERMS})`,
  "event Settled()",
  "event SettledWithPermit()",
]);
