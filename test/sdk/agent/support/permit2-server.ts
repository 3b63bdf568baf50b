/**
 * A resource server like stock x402 packages that sells over Permit2, and an RPC of the chain that it settles on. It
 * checks every signature, and lies where a test asks it to.
 */
import { AbiCoder, Interface, TypedDataEncoder } from "ethers";
import { uptoProxyInterface } from "turnpike/chain";
import {
  type Address,
  caip2Of,
  decodeJsonHeader,
  encodeJsonHeader,
  type Hex,
  keccakText,
  PERMIT2,
  type Permit2Authorization,
  permit2AuthorizationOf,
  permit2TypedData,
  permitTypedData,
  proxiedPayloadSchema,
  recoverSigner,
  toHex,
  typedDataDigest,
  UPTO_PERMIT2_PROXY,
  uptoPayloadSchema,
  wordOfAddress,
  wordOfUint,
} from "turnpike/protocol";
import { type Answer, type Seen, type StandIn, serve } from "./servers";
import { addressOf, CHAIN_ID, Chain, TOKEN, TOKEN_DOMAIN } from "./world";

export const SETTLER = addressOf("settler");

export const MAX = 500_000n;

interface Mined {
  readonly to: Address;
  readonly input: string;
  readonly logs: readonly object[];
}

/** The simulated chain with Permit2: nonces, the payer's allowance, and mined settlements by hash. */
export class Permit2Chain extends Chain {
  allowance = 1_000_000_000n;
  /** undefined: the token has no permits */
  permitNonce: bigint | undefined = 0n;
  readonly used = new Set<bigint>();
  readonly mined = new Map<string, Mined>();

  /** Mines a settlement of an `upto` payment. @returns the transaction, undefined where the nonce is used */
  settle(signed: Permit2Authorization, charged: bigint): Hex | undefined {
    const { from, token, amount, nonce, deadline, to, validAfter, facilitator } = signed;
    if (this.used.has(nonce)) return undefined;
    this.used.add(nonce);
    const permit = { permitted: { token, amount }, nonce, deadline };
    const input = facilitator
      ? uptoProxyInterface.encodeFunctionData("settle", [
          permit,
          charged,
          from,
          { to, facilitator, validAfter },
          "0x12",
        ])
      : "0x";
    const topics = [
      keccakText("Transfer(address,address,uint256)"),
      toHex(wordOfAddress(from)),
      toHex(wordOfAddress(to)),
    ];
    const hash = keccakText(`permit2 ${nonce}`);
    const log = { address: token, topics, data: toHex(wordOfUint(charged)) };
    this.mined.set(hash, { to: UPTO_PERMIT2_PROXY, input, logs: [log] });
    this.move({ id: toHex(wordOfUint(nonce)), from, to, value: charged });
    return hash;
  }
}

export type Permit2Step = "402" | "412" | "settle_then_drop" | "drop";

export interface Permit2ServerOptions {
  readonly scheme?: "exact" | "upto";
  /** changes the entry: where a lying server lies */
  readonly tamper?: (entry: Record<string, unknown>) => Record<string, unknown>;
  /** more entries, after the one over Permit2 */
  readonly more?: readonly object[];
  /** of `upto`: what it charges; default: the maximum */
  readonly charge?: bigint;
  /** changes what it reports of the settlement */
  readonly report?: (report: Record<string, unknown>) => Record<string, unknown>;
  /** pays for the approval of Permit2 */
  readonly sponsors?: boolean;
  readonly steps?: Permit2Step[];
}

export interface Permit2Server extends StandIn {
  readonly steps: Permit2Step[];
  /** every distinct header that paid */
  readonly headers: Set<string>;
  /** what was signed, once for each presentation that was judged */
  readonly signed: Permit2Authorization[];
  /** base units that a permit approved Permit2 for */
  readonly approved: bigint[];
}

const ENTRY = {
  network: caip2Of(CHAIN_ID),
  amount: `${MAX}`,
  payTo: addressOf("provider"),
  asset: TOKEN,
  maxTimeoutSeconds: 60,
};

/** The same price by the token's own authorization. */
export const EIP3009_ENTRY = { ...ENTRY, scheme: "exact", extra: TOKEN_DOMAIN };

export async function startPermit2Server(
  chain: Permit2Chain,
  options: Permit2ServerOptions = {},
): Promise<Permit2Server> {
  const { scheme = "upto", tamper, more = [], charge = MAX, report, sponsors = false, steps = [] } = options;
  const headers = new Set<string>();
  const signed: Permit2Authorization[] = [];
  const approved: bigint[] = [];
  const settler = scheme === "upto" ? { facilitatorAddress: SETTLER } : {};
  const plain = { ...ENTRY, scheme, extra: { ...TOKEN_DOMAIN, assetTransferMethod: "permit2", ...settler } };
  const entry = tamper?.(plain) ?? plain;
  const info = { description: "gas", version: "1" };
  const extensions = sponsors ? { eip2612GasSponsoring: { info, schema: {} } } : {};

  function quote(request: Seen, error: string, status = 402): Answer {
    const resource = { url: `${server.url}${request.url}` };
    const required = { x402Version: 2, error, resource, accepts: [entry, ...more], extensions };
    return { status, json: {}, headers: { "PAYMENT-REQUIRED": encodeJsonHeader(required) } };
  }

  /** Returns what the payer signed; undefined for a signature over anything else. */
  function judge(header: string): Permit2Authorization | undefined {
    const decoded = decodeJsonHeader(header) as { payload: unknown; extensions?: Record<string, { info: never }> };
    const schema = scheme === "upto" ? uptoPayloadSchema : proxiedPayloadSchema;
    const parsed = schema.safeParse(decoded.payload);
    if (!parsed.success) return undefined;
    const payload = parsed.data;
    const authorization = permit2AuthorizationOf(payload);
    signed.push(authorization);
    const digest = typedDataDigest(permit2TypedData(CHAIN_ID, authorization));
    if (recoverSigner(digest, payload.signature) !== authorization.from) return undefined;
    const permit = decoded.extensions?.eip2612GasSponsoring?.info as Record<string, string> | undefined;
    if (permit) approve(permit, authorization.from);
    return authorization;
  }

  function approve(
    { amount = "0", nonce = "0", deadline = "0", signature = "" }: Record<string, string>,
    owner: Address,
  ): void {
    const message = {
      owner,
      spender: PERMIT2,
      value: BigInt(amount),
      nonce: BigInt(nonce),
      deadline: BigInt(deadline),
    };
    const domain = { chainId: CHAIN_ID, token: TOKEN, ...TOKEN_DOMAIN };
    const isOwners = recoverSigner(typedDataDigest(permitTypedData(domain, message)), signature) === owner;
    if (!isOwners || BigInt(nonce) !== chain.permitNonce) return;
    chain.permitNonce = chain.permitNonce + 1n;
    chain.allowance = BigInt(amount);
    approved.push(BigInt(amount));
  }

  const server = await serve((request) => {
    const header = request.headers["payment-signature"];
    if (typeof header !== "string") return quote(request, "payment required");
    headers.add(header);
    const step = steps.shift();
    if (step === "402") return quote(request, "invalid_payload");
    if (step === "412") return quote(request, "permit2_allowance_required", 412);
    if (step === "drop") return { status: 0, drop: true };
    const authorization = judge(header);
    const charged = scheme === "upto" ? charge : MAX;
    if (!authorization || authorization.amount > chain.allowance) return quote(request, "invalid_payload");
    const transaction = charged === 0n ? "" : chain.settle(authorization, charged);
    if (transaction === undefined) return quote(request, "permit2_invalid_nonce");
    if (charged > 0n) chain.allowance -= charged;
    if (step === "settle_then_drop") return { status: 0, drop: true };
    const settled = {
      success: true,
      transaction,
      network: ENTRY.network,
      payer: authorization.from,
      amount: `${charged}`,
    };
    const reported = report?.(settled) ?? settled;
    return { status: 200, json: { data: "paid content" }, headers: { "PAYMENT-RESPONSE": encodeJsonHeader(reported) } };
  });
  return Object.assign(server, { steps, headers, signed, approved });
}

const reads = new Interface([
  "function balanceOf(address) view returns (uint256)",
  "function allowance(address, address) view returns (uint256)",
  "function nonces(address) view returns (uint256)",
  "function nonceBitmap(address, uint256) view returns (uint256)",
  "function authorizationState(address, bytes32) view returns (bool)",
  "function DOMAIN_SEPARATOR() view returns (bytes32)",
]);

export function startPermit2Rpc(chain: Permit2Chain): Promise<StandIn> {
  const uint = (value: bigint) => AbiCoder.defaultAbiCoder().encode(["uint256"], [value]);

  function bitmap(word: bigint): bigint {
    const bits = [...chain.used].filter((nonce) => nonce >> 8n === word).map((nonce) => 1n << (nonce & 255n));
    return bits.reduce((all, bit) => all | bit, 0n);
  }

  function call({ to, data }: { readonly to: string; readonly data: string }): string | undefined {
    const { name, args } = reads.parseTransaction({ data }) ?? {};
    if (name === "balanceOf") return uint(chain.balance);
    if (name === "allowance") return uint(args?.[1] === PERMIT2 ? chain.allowance : 0n);
    if (name === "nonces") return chain.permitNonce === undefined ? undefined : uint(chain.permitNonce);
    if (name === "nonceBitmap") return uint(to === PERMIT2 ? bitmap(args?.[1]) : 0n);
    if (name === "authorizationState") return uint(0n);
    return TypedDataEncoder.hashDomain({ ...TOKEN_DOMAIN, chainId: CHAIN_ID, verifyingContract: to });
  }

  return serve(({ body }) => {
    const { id, method, params } = JSON.parse(body) as { id: number; method: string; params: [never] };
    const mined = chain.mined.get(params[0]);
    const results: Record<string, () => unknown> = {
      eth_chainId: () => `0x${CHAIN_ID.toString(16)}`,
      eth_getBlockByNumber: () => ({ number: "0x2a", timestamp: `0x${chain.nowSec.toString(16)}` }),
      eth_call: () => call(params[0]),
      eth_getTransactionByHash: () => mined ?? null,
      eth_getTransactionReceipt: () => (mined ? { status: "0x1", logs: mined.logs } : null),
    };
    const result = results[method]?.();
    const answer = result === undefined ? { error: { code: 3, message: "execution reverted" } } : { result };
    return { status: 200, json: { jsonrpc: "2.0", id, ...answer } };
  });
}
