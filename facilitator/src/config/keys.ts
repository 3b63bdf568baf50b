import { type Address, checksumFault, type ProofSigner, parseProofSigner } from "turnpike/protocol";
import { z } from "zod";
import { type KeySource, keySource } from "./key-source";
import { address, list, optional, url } from "./setting";

const proofSigner = z.string().transform((text, context): ProofSigner => {
  const signer = parseProofSigner(text);
  const fault = signer && checksumFault(text.split("@")[0] as Address);
  if (signer && fault === undefined) return signer;
  const message =
    fault ?? "must be an address, or an address with @ and a time: unix seconds, or ISO 8601 with its zone";
  context.addIssue({ code: "custom", message });
  return z.NEVER;
});

/** The key of the account that one provider's automatic refunds are paid from. */
export interface RefundKey {
  readonly provider: Address;
  readonly source: KeySource;
}

const refundKey = z.string().transform((text, context): RefundKey => {
  const [written = "", ...rest] = text.split("=");
  const provider = address.safeParse(written);
  const source = keySource.safeParse(rest.join("="));
  if (provider.success && source.success) return { provider: provider.data, source: source.data };
  const message = provider.success
    ? (source.error?.issues[0]?.message ?? "has no key")
    : "must be PROVIDER=KEY: the address of a payee, and a private key, file:PATH or aws-kms:ID";
  context.addIssue({ code: "custom", message });
  return z.NEVER;
});

export const KEYS = {
  relayerKeys: optional({
    env: "RELAYER_KEYS",
    about:
      "Keys that pay the gas, comma-separated; each is one lane: a private key, file:PATH, or aws-kms:ID. Required with the role relayer.",
    danger: "A key that anything else also sends with stops its lane.",
    role: "relayer",
    schema: z.string().transform(list).pipe(z.array(keySource).min(1, "must name at least one")),
  }),
  proofKey: optional({
    env: "PROOF_KEY",
    about: "Key that signs payment proofs, in the same forms; gates pin its address. Required with the role api.",
    danger: "A holder of this key can forge proofs of payment.",
    role: "api",
    schema: keySource,
  }),
  proofSigners: optional({
    env: "PROOF_SIGNERS",
    about:
      "Further addresses whose proofs count, comma-separated: the next one before PROOF_KEY is replaced, the former one afterwards. 0x...@TIME (unix seconds or ISO 8601) counts for payments that settled before.",
    danger: "A holder of one of their keys can forge proofs of payment: remove a leaked one at once.",
    schema: z.string().transform(list).pipe(z.array(proofSigner).min(1, "must name at least one")),
  }),
  refundKeys: optional({
    env: "REFUND_KEYS",
    about:
      "Keys of the accounts that automatic refunds are paid from, comma-separated, one for each provider: 0xPROVIDER=KEY, with the key in the same forms.",
    danger: "A holder of one of these keys can take the money of its account: fund it for a few days.",
    role: "api",
    schema: z
      .string()
      .transform(list)
      .pipe(z.array(refundKey).min(1, "must name at least one"))
      .refine((keys) => new Set(keys.map(({ provider }) => provider)).size === keys.length, "names a provider twice"),
  }),
  kmsEndpoint: optional({
    env: "KMS_ENDPOINT",
    about: "URL of the key management service, where it is not AWS's own for AWS_REGION.",
    danger: "The server at this URL signs for the service.",
    schema: url,
  }),
} as const;
