/** The keys of the service. */
import { z } from "zod";
import { keySource } from "./key-source";
import { list, optional, url } from "./setting";

export const KEYS = {
  relayerKeys: optional({
    env: "RELAYER_KEYS",
    about:
      "Keys that pay the gas, comma-separated; each is one lane: a private key, file:PATH, or aws-kms:ID. Required with the role relayer.",
    danger: "A key that anything else also sends with stops its lane.",
    role: "relayer",
    schema: z.string().transform(list).pipe(z.array(keySource).min(1)),
  }),
  proofKey: optional({
    env: "PROOF_KEY",
    about: "Key that signs payment proofs, in the same forms; gates pin its address. Required with the role api.",
    danger: "Whoever holds it can forge proofs of payment.",
    role: "api",
    schema: keySource,
  }),
  kmsEndpoint: optional({
    env: "KMS_ENDPOINT",
    about: "URL of the key management service, where it is not AWS's own for AWS_REGION.",
    danger: "Whoever answers there signs for the service.",
    schema: url,
  }),
} as const;
