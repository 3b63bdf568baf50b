/** The chain, its contracts and the tokens that are settled. */
import { parseAmount } from "turnpike/protocol";
import { z } from "zod";
import { address, addresses, list, optional, setting, url, whole } from "./setting";

export const tokenConfigSchema = z.object({
  address,
  /** of the token's EIP-712 domain */
  name: z.string().min(1),
  version: z.string().min(1),
  decimals: z.number().int().min(0).max(36).default(6),
  /** base units: less is refused, since it would cost more gas than it moves */
  minAmount: z
    .string()
    .refine((text) => parseAmount(text) !== undefined, "must be a decimal string of base units")
    .transform(BigInt)
    .default(100n),
  /** base units: payments from this amount on wait for `LARGE_CONFIRMATIONS` */
  largeAmount: z
    .string()
    .refine((text) => parseAmount(text) !== undefined, "must be a decimal string of base units")
    .transform(BigInt)
    .default(1_000_000_000n),
});

export type TokenConfig = z.output<typeof tokenConfigSchema>;

const tokens = z
  .string()
  .transform((text, context) => {
    try {
      return JSON.parse(text) as unknown;
    } catch {
      context.addIssue({ code: "custom", message: "must be JSON" });
      return z.NEVER;
    }
  })
  .pipe(z.array(tokenConfigSchema).min(1, "must name at least one"));

export const CHAIN = {
  chains: optional({
    env: "CHAINS",
    about:
      "Networks that one deployment settles on, comma-separated, e.g. base-mainnet,polygon-mainnet. Each has a section of variables that begin with its name, as BASE_MAINNET_RPC_URLS; CHAIN_ID is not set then. Absent: one chain.",
    danger: "Requests that name no network, and no id of a chain, go to the first.",
    schema: z.string().transform(list),
  }),
  chainId: setting({ env: "CHAIN_ID", about: "Chain that is settled on, by EIP-155 id.", schema: whole(1) }),
  rpcUrls: setting({
    env: "RPC_URLS",
    about: "JSON-RPC URLs of that chain, comma-separated; the first is preferred, the others are asked when it fails.",
    danger:
      "Nodes are not compared with each other: name only nodes that you trust. The next one is asked when one fails.",
    schema: z.string().transform(list).pipe(z.array(url).min(1, "must name at least one")),
  }),
  turnpike: setting({ env: "TURNPIKE", about: "Address of the Turnpike contract.", schema: address }),
  batchSettler: setting({
    env: "BATCH_SETTLER",
    about: "Address of the BatchSettler contract.",
    schema: address,
  }),
  tokens: setting({
    env: "TOKENS",
    about:
      'Tokens that are settled: JSON [{"address","name","version","decimals","minAmount","largeAmount"}], name and version of the EIP-712 domain, amounts as decimal strings of base units. Smaller payments than `minAmount` (default 100) are refused.',
    danger: "A token that is not a well-behaved EIP-3009 stablecoin can burn the relayer's gas.",
    schema: tokens,
  }),
  explorerUrl: optional({
    env: "EXPLORER_URL",
    about:
      "Address of a block explorer, which `/tx/<hash>`, `/address/<address>` and `/block/<number>` follow: the dashboard links to it. Absent: the explorer that the network is known for, and none for a local chain.",
    danger: "It learns which transactions a provider looks at.",
    schema: url.transform((text) => text.replace(/\/+$/, "")),
  }),
  payTo: optional({
    env: "PAY_TO",
    about: "Payees that are settled for, comma-separated addresses; every payee when absent.",
    danger: "When absent, strangers can spend the relayer's gas on payments to themselves.",
    schema: addresses,
  }),
} as const;
