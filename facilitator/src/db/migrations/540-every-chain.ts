/**
 * Lets API keys and webhook endpoints serve every chain of a deployment. Existing ones stay with their chain: whether a
 * key or a contract signed for them was not recorded, and a contract's address may have another owner elsewhere.
 */
import type { Migration } from "./migration";

export const everyChain: Migration = {
  id: "540-every-chain",
  statements: [
    `alter table api_keys add column every_chain boolean not null default false`,
    `alter table webhook_endpoints add column every_chain boolean not null default false`,
    // Found by provider, whatever the chain.
    `create index api_keys_owner on api_keys (provider)`,
    `create index webhook_endpoints_owner on webhook_endpoints (provider)`,
  ],
};
