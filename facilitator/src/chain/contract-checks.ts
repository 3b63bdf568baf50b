/**
 * Checks that the configured contracts are those of this release: code by its hash, tokens by their signing domain. The
 * findings can stop the start, and the doctor prints them.
 */
import { keccak256, type Result } from "ethers";
import { judgeTokenDomain, lensAddressOf, lensInterface, statedTokenDomain, tokenInterface } from "turnpike/chain";
import { type Address, EXACT_PERMIT2_PROXY, type Hex, PERMIT2, UPTO_PERMIT2_PROXY } from "turnpike/protocol";
import type { FacilitatorConfig } from "../config";
import type { TokenConfig } from "../config/chain";
import type { BlockTag, ChainReader } from "./chain-reader";
import known from "./contract-code.json";

export interface Finding {
  readonly level: "ok" | "warn" | "fail";
  readonly subject: string;
  readonly detail: string;
  /** how to fix it; absent with "ok" */
  readonly remedy?: string;
  /** a token whose payments are settled over Permit2 alone */
  readonly permit2Only?: Address;
}

interface KnownCode {
  readonly hash: string;
  /** ranges of the code that differ from chain to chain: start and length, in bytes */
  readonly immutables: readonly (readonly number[])[];
}

export async function checkContracts(chain: ChainReader, config: FacilitatorConfig): Promise<Finding[]> {
  return Promise.all([
    checkCode(chain, config, { setting: "TURNPIKE", address: config.turnpike, code: known.turnpike }),
    checkCode(chain, config, { setting: "BATCH_SETTLER", address: config.batchSettler, code: known.batchSettler }),
    ...config.tokens.map((token) => checkToken(chain, config, token)),
    ...PERMIT2_CONTRACTS.flatMap(({ setting, address, isUsed }) =>
      isUsed(config) ? [checkPresence(chain, config, setting, address)] : [],
    ),
  ]);
}

/** Contracts at the same address on every chain, each with the setting that needs it. */
const PERMIT2_CONTRACTS = [
  { setting: "PERMIT2", address: PERMIT2, isUsed: ({ permit2 }: FacilitatorConfig) => permit2 },
  { setting: "PERMIT2", address: EXACT_PERMIT2_PROXY, isUsed: ({ permit2 }: FacilitatorConfig) => permit2 },
  {
    setting: "UPTO_SIGNER",
    address: UPTO_PERMIT2_PROXY,
    isUsed: ({ uptoSigner }: FacilitatorConfig) => uptoSigner !== undefined,
  },
] as const;

/** Their addresses are hashes of their code, so what is there is the contract. */
async function checkPresence(
  chain: ChainReader,
  { chainId }: FacilitatorConfig,
  setting: string,
  address: Address,
): Promise<Finding> {
  if ((await chain.code(address)) !== "0x") return { level: "ok", subject: setting, detail: `${address} is there` };
  return {
    level: "fail",
    subject: setting,
    detail: `${setting} needs the contract ${address}, which chain ${chainId} does not have`,
    remedy: `remove ${setting}, or deploy the contract with its authors' script`,
  };
}

interface Named {
  readonly setting: string;
  readonly address: Address;
  readonly code: KnownCode;
}

async function checkCode(chain: ChainReader, config: FacilitatorConfig, named: Named): Promise<Finding> {
  const { setting, address } = named;
  const code = await chain.code(address);
  if (code === "0x") return absent(setting, address, config);
  if (keccak256(masked(code, named.code)) === named.code.hash) {
    return { level: "ok", subject: setting, detail: `${address} is this release's contract` };
  }
  const other = NAMED.find(({ code: expected }) => keccak256(masked(code, expected)) === expected.hash);
  if (other) {
    return {
      level: "fail",
      subject: setting,
      detail: `${address} is the contract that ${other.setting} must name`,
      remedy: "exchange the addresses of TURNPIKE and BATCH_SETTLER",
    };
  }
  if (setting === "TURNPIKE" && !(await isTurnpikeAt(chain, address, "latest"))) {
    return {
      level: "fail",
      subject: setting,
      detail: `${address} is a contract, but not Turnpike of this release: its lens does not answer getPlans()`,
      remedy: "set TURNPIKE to the address in deployments/, or in .sandbox/state.json",
    };
  }
  // On a local chain the contracts may be under development.
  const level = config.network.name.startsWith("local-") ? "warn" : "fail";
  return {
    level,
    subject: setting,
    detail: `${address} has other code than this release's contract`,
    remedy: `set ${setting} to the address in deployments/, or run the release that the contract belongs to`,
  };
}

const NAMED = [
  { setting: "TURNPIKE", code: known.turnpike },
  { setting: "BATCH_SETTLER", code: known.batchSettler },
] as const;

/**
 * Reports whether the lens of `address` answered getPlans() at a block. On a local chain the code may be under
 * development, but it is Turnpike's all the same.
 * @throws when the node no longer has the state of that block
 */
export async function isTurnpikeAt(chain: ChainReader, address: Address, block: BlockTag): Promise<boolean> {
  const data = lensInterface.encodeFunctionData("getPlans", [[]]) as Hex;
  const answer = await chain.call({ to: lensAddressOf(address), data, block });
  return answer.kind === "ok" && answer.data === EMPTY_LIST;
}

/** An empty array, ABI-encoded. */
const EMPTY_LIST = `0x${"20".padStart(64, "0")}${"0".repeat(64)}`;

function masked(code: Hex, { immutables }: KnownCode): Hex {
  let digits = code.slice(2);
  for (const [start = 0, length = 0] of immutables) {
    digits = digits.slice(0, start * 2) + "0".repeat(length * 2) + digits.slice((start + length) * 2);
  }
  return `0x${digits}`;
}

async function checkToken(chain: ChainReader, config: FacilitatorConfig, token: TokenConfig): Promise<Finding> {
  const { address, name, version, decimals } = token;
  const subject = `TOKENS ${name}`;
  if ((await chain.code(address)) === "0x") return absent("TOKENS", address, config);
  const view = viewOf(chain, address);
  const [stated, digits] = await Promise.all([statedTokenDomain(view), view("decimals")]);
  const verdict = judgeTokenDomain({ chainId: config.chainId, token: address, name, version }, stated);
  if (verdict.kind === "unknown") {
    const remedy = "see that name and version are those of its EIP-712 domain";
    return { level: "warn", subject, detail: `${address} does not return its signing domain`, remedy };
  }
  if (verdict.kind === "other") return { subject, ...otherDomain(config, token, verdict.signable) };
  if (digits && Number(digits[0]) !== decimals) {
    const detail = `${address} has ${digits[0]} decimals, not ${decimals}: amounts would be shown wrong`;
    return { level: "warn", subject, detail, remedy: "set decimals in TOKENS" };
  }
  return { level: "ok", subject, detail: `${address}, domain "${name}" version "${version}"` };
}

function otherDomain(
  { permit2 }: FacilitatorConfig,
  { address, name, version }: TokenConfig,
  signable: { readonly name: string; readonly version: string } | undefined,
): Omit<Finding, "subject"> {
  if (signable) {
    return {
      level: "fail",
      detail: `${address} signs for another domain than "${name}" version "${version}": every signature would be refused`,
      remedy: `set name and version in TOKENS to "${signable.name}" and "${signable.version}"`,
    };
  }
  const detail = `${address} has a signing domain of its own, such as one with a salt, and x402 clients cannot sign for it`;
  if (!permit2) {
    const remedy = "set PERMIT2=true, so that its payments are settled over Permit2 alone, or remove it from TOKENS";
    return { level: "fail", detail, remedy };
  }
  const remedy = 'set token.transferMethod to "permit2" at the gates that sell in it';
  return { level: "warn", detail: `${detail}: only payments over Permit2 are settled`, remedy, permit2Only: address };
}

/** Reads a token's views; undefined for what it does not answer. */
const viewOf =
  (chain: ChainReader, to: Address) =>
  async (method: string): Promise<Result | undefined> => {
    const answer = await chain.call({ to, data: tokenInterface.encodeFunctionData(method) as Hex });
    if (answer.kind !== "ok") return undefined;
    try {
      return tokenInterface.decodeFunctionResult(method, answer.data);
    } catch {
      // Another contract's answer, or none: the token has no such function.
      return undefined;
    }
  };

const absent = (setting: string, address: Address, config: FacilitatorConfig): Finding => ({
  level: "fail",
  subject: setting,
  detail: `${setting} names ${address}, where chain ${config.chainId} has no contract`,
  remedy: `set ${setting} to where the contract is, or RPC_URLS and CHAIN_ID to the chain where it is`,
});
