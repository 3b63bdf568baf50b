/** API keys by their hash, the challenges that were spent on them, and secrets of the service itself. */
export interface ApiKeysTable {
  id: string;
  chain_id: number;
  /** the wallet that signed for it */
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
  /** to the minute */
  last_used_at_ms: number | null;
}

export interface SpentChallengesTable {
  nonce: string;
  expires_at_ms: number;
}

export interface ServiceSecretsTable {
  name: string;
  value: string;
}
