/** Reads a token, and judges whether signatures under a name and a version are those that it accepts. */
import type { Result } from "ethers/abi";
import {
  type Address,
  checksum,
  domainSeparator,
  type Hex,
  isTurnpikeError,
  sameAddress,
  type TokenDomain,
  toHex,
} from "../protocol";
import { aText, callback, fieldsOf } from "../protocol/arguments";
import { tokenInterface } from "./abi";
import { requireRpc } from "./require-rpc";
import { callView, type Rpc } from "./rpc";
import { NO_ANSWER } from "./views";

/** What a token states of its EIP-712 domain; each absent where it does not answer. */
export interface StatedDomain {
  /** DOMAIN_SEPARATOR() */
  readonly separator?: Hex | undefined;
  /** eip712Domain() */
  readonly domain?: Eip712Domain | undefined;
  /** name() */
  readonly name?: string | undefined;
  /** version() */
  readonly version?: string | undefined;
}

/** The answer of ERC-5267, without its extensions. */
export interface Eip712Domain {
  /** which fields the domain has, a bit each */
  readonly fields: number;
  readonly name: string;
  readonly version: string;
  readonly chainId: bigint;
  readonly verifyingContract: string;
}

/**
 * `signable`: by the given name and version. `unknown`: the token states nothing. `other`: the token refuses such
 * signatures; `signable` has the name and version that it accepts, absent where clients of x402 can sign none.
 */
export type DomainVerdict =
  | { readonly kind: "signable" | "unknown" }
  | { readonly kind: "other"; readonly signable?: { readonly name: string; readonly version: string } };

/** Name, version, chain and contract: all that clients of x402 sign. A salt is one more. */
const SIGNED_FIELDS = 0x0f;

/** Compares a name and a version with what the token states. */
export function judgeTokenDomain(given: TokenDomain, stated: StatedDomain): DomainVerdict {
  fieldsOf(given, "given");
  fieldsOf(stated, "stated");
  const { separator, domain, name, version } = stated;
  const { chainId, token } = given;
  const isPlain =
    domain?.fields === SIGNED_FIELDS &&
    domain.chainId === BigInt(chainId) &&
    sameAddress(domain.verifyingContract as Address, token);
  if (separator === undefined) {
    if (!domain) return { kind: "unknown" };
    if (!isPlain) return { kind: "other" };
    const isSame = domain.name === given.name && domain.version === given.version;
    return isSame ? { kind: "signable" } : { kind: "other", signable: { name: domain.name, version: domain.version } };
  }
  const isOf = (names: { readonly name: string; readonly version: string }): boolean =>
    toHex(domainSeparator({ ...names, chainId, verifyingContract: token })) === separator.toLowerCase();
  if (isOf(given)) return { kind: "signable" };
  const versions = [version, "1", "2"].filter((each) => each !== undefined);
  const guesses = name === undefined ? [] : versions.map((each) => ({ name, version: each }));
  if (domain) guesses.unshift({ name: domain.name, version: domain.version });
  const signable = guesses.find(isOf);
  return signable ? { kind: "other", signable } : { kind: "other" };
}

/** Reads what a token states of its domain. @throws Unavailable */
export const readTokenDomain = (rpc: Rpc, token: Address): Promise<StatedDomain> =>
  statedTokenDomain((method) => optionalView(rpc, token, method));

const viewOf = (rpc: Rpc, token: Address, method: string): Promise<Result> =>
  callView(rpc, { to: token, iface: tokenInterface, method, args: [] });

/** @returns undefined where the token has no such view */
async function optionalView(rpc: Rpc, token: Address, method: string): Promise<Result | undefined> {
  try {
    return await viewOf(rpc, token, method);
  } catch (error) {
    if (isTurnpikeError(error) && error.reason === NO_ANSWER) return undefined;
    throw error;
  }
}

/**
 * Reads what a token states of its domain.
 * @param view calls a view of `tokenInterface` without arguments; undefined where the token has none
 */
export async function statedTokenDomain(view: (method: string) => Promise<Result | undefined>): Promise<StatedDomain> {
  callback(view, "view");
  const methods = ["DOMAIN_SEPARATOR", "eip712Domain", "name", "version"];
  const [separator, domain, name, version] = await Promise.all(methods.map(view));
  return {
    separator: separator?.[0],
    name: name?.[0],
    version: version?.[0],
    domain: domain && {
      fields: Number(domain.fields),
      name: domain.getValue("name"),
      version: domain.version,
      chainId: domain.chainId,
      verifyingContract: domain.verifyingContract,
    },
  };
}

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
  requireRpc(rpc);
  aText(address, "address");
  const [named, decimals, domain] = await Promise.all([
    viewOf(rpc, address, "name"),
    viewOf(rpc, address, "decimals"),
    optionalView(rpc, address, "eip712Domain"),
  ]);
  const version = domain ? String(domain.version) : String((await optionalView(rpc, address, "version"))?.[0] ?? "1");
  return {
    address: checksum(address),
    name: domain ? String(domain.getValue("name")) : String(named[0]),
    version,
    decimals: Number(decimals[0]),
  };
}
