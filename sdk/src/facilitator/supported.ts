import * as z from "zod";
import { addressSchema, networkOfChain, Unavailable } from "../protocol";
import { aNumber, fieldsOf } from "../protocol/arguments";

/** What a Facilitator settles on one chain, and with which contracts and keys. */
const chainFields = {
  network: z.string().max(64),
  chainId: z.number().int().positive(),
  turnpike: addressSchema,
  batchSettler: addressSchema,
  /** whose signature on a proof counts for any payment: the current signer first, then the next one and former ones */
  proofSigners: z.array(addressSchema).min(1),
  /** whose signature counts for payments that settled before `until`, unix seconds of the chain */
  retiredProofSigners: z.array(z.object({ address: addressSchema, until: z.number().int().nonnegative() })).optional(),
  /** of a block explorer: see `Network.explorer` */
  explorer: z.string().max(2_048).optional(),
  /** who submits transactions */
  relayers: z.array(addressSchema),
  /** how `exact` payments may move their money; absent: by the token's EIP-3009 alone */
  transferMethods: z.array(z.string().max(64)).optional(),
  tokens: z.array(
    z.object({
      address: addressSchema,
      /** of the token's EIP-712 domain */
      name: z.string().max(128),
      version: z.string().max(32),
      decimals: z.number().int().min(0).max(77),
      /** base units; a smaller payment is refused, but for the charge 0 of an `upto` payment */
      minAmount: z
        .string()
        .regex(/^[0-9]{1,78}$/)
        .optional(),
    }),
  ),
};

export const supportedChainSchema = z.object(chainFields);

export type SupportedChain = z.output<typeof supportedChainSchema>;

export type SupportedChainWire = z.input<typeof supportedChainSchema>;

export const supportedSchema = z.object({
  /** as stock x402 clients read them, versions 1 and 2 mixed */
  kinds: z.array(
    z.object({
      x402Version: z.number().int().positive(),
      scheme: z.string().max(64),
      network: z.string().max(64),
      extra: z.record(z.string(), z.unknown()).optional(),
    }),
  ),
  extensions: z.array(z.string()),
  /** relayer addresses by CAIP-2 pattern, as x402 version 2 lists them */
  signers: z.record(z.string(), z.array(z.string())),
  ...chainFields,
  /** whether `/settle` signs to which purchase a payment was granted; gates of this project settle with no other */
  paymentGrants: z.boolean().optional(),
  /** whether `/verify` reserves a payment's amount for a purchase, so that a gate may serve before it settles */
  reservations: z.boolean().optional(),
  /** of a Facilitator on several chains: the same facts for each; those above are of the first, or of `?network=` */
  chains: z.array(supportedChainSchema).optional(),
});

export type Supported = z.output<typeof supportedSchema>;

/**
 * Narrows an answer about several chains to one of them, with the contracts, keys and tokens of that chain.
 * @throws Unavailable with the reason `network` where that chain is not among those that are up
 */
export function supportedOn(supported: Supported, chainId: number): Supported {
  fieldsOf(supported, "supported");
  aNumber(chainId, "chainId");
  const chains = supported.chains ?? [supported];
  const own = chains.find((chain) => chain.chainId === chainId);
  if (own) return { ...supported, ...own };
  const names = chains.map(({ network }) => network).join(", ");
  throw new Unavailable(
    `The Facilitator does not serve ${networkOfChain(chainId).name} now: it lists ${names}. Check the Facilitator's URL and the network, or try again when that chain is up.`,
    { reason: "network" },
  );
}

export type SupportedWire = z.input<typeof supportedSchema>;
