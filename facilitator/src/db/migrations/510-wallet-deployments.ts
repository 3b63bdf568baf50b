/** Stores deployments of payers' wallets whose payment is not accepted yet: one row per wallet, for a short time. */
import type { Migration } from "./migration";

export const walletDeployments: Migration = {
  id: "510-wallet-deployments",
  statements: [
    `create table wallet_deployments (
      chain_id bigint not null, wallet text not null, transaction_id text not null, payment_id text not null,
      signature text not null, pay_to text not null, valid_before bigint not null, primary key (chain_id, wallet))`,
  ],
};
