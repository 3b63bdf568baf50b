/** API keys by their hash, used challenges, labels, and secrets of the service itself. */
import type { Generated } from "kysely";

export interface ApiKeysTable {
  id: string;
  chain_id: number;
  /** wallet that signed the creation of the key */
  provider: string;
  name: string;
  /** comma-separated */
  scopes: string;
  /** sha256 of the secret half, hex */
  hash: string;
  created_at_ms: number;
  expires_at_ms: number;
  revoked_at_ms: number | null;
  rotated_from: string | null;
  /** precise to a minute */
  last_used_at_ms: number | null;
  /** whether it is valid on every chain of the deployment */
  every_chain: Generated<boolean>;
}

export interface SpentChallengesTable {
  nonce: string;
  expires_at_ms: number;
}

export interface ServiceSecretsTable {
  name: string;
  value: string;
}

export interface LabelsTable {
  chain_id: number;
  provider: string;
  /** a payer's address, or the id of a plan */
  object: string;
  text: string;
}
