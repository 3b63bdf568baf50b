/**
 * Determines the EIP-712 domain under which a token accepts signatures: the agent's configuration counts before what a
 * peer reports.
 */
import {
  type Address,
  domainSeparator,
  knownToken,
  networkOfChain,
  PolicyRefused,
  sameAddress,
  type TokenDomain,
  toHex,
} from "../../../protocol";
import type { AgentContext } from "../../core/context";

export interface ReportedDomain {
  readonly name: string;
  readonly version: string;
}

/**
 * Returns a token's domain, checked against the token's own DOMAIN_SEPARATOR where the agent has an RPC.
 * @throws PolicyRefused when it is not known, or the token says otherwise
 */
export async function tokenDomain(
  context: AgentContext,
  {
    chainId,
    token,
    reported,
  }: { readonly chainId: number; readonly token: Address; readonly reported: ReportedDomain | undefined },
): Promise<TokenDomain> {
  const configured = context.tokens.find((known) => known.chainId === chainId && sameAddress(known.address, token));
  const preset = knownToken(networkOfChain(chainId, context.networks), token);
  const known = configured ?? (preset?.isUnverified ? (reported ?? preset) : (preset ?? reported));
  if (!known) throw new PolicyRefused("The token's signing domain is not known.", { reason: "token_domain" });
  const { name, version } = known;
  const separator = await context.chainOf(chainId)?.domainSeparator(token);
  if (separator !== undefined && separator !== separatorOf({ chainId, token, name, version })) {
    throw new PolicyRefused("The token's signing domain differs from the one that was reported.", {
      reason: "token_domain",
    });
  }
  return { chainId, token, name, version };
}

const separatorOf = ({ name, version, chainId, token }: TokenDomain): string =>
  toHex(domainSeparator({ name, version, chainId, verifyingContract: token }));
