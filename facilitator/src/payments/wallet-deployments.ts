/**
 * Deploys the wallets of payers that signed before their wallet existed (ERC-6492). Each deployment is a transaction of
 * its own, before the payment is accepted: no batch and no other payment ever runs a factory's code. One row per wallet,
 * so that requests, processes and restarts share one deployment.
 */
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { TurnpikeError } from "turnpike/protocol";
import { intrinsicGas } from "../chain/gas";
import type { WalletDeployment } from "../chain/undeployed-wallet";
import type { FacilitatorConfig } from "../config";
import type { Store } from "../db/open";
import type { WalletDeploymentsTable } from "../db/tables/payments";
import type { Relayer } from "../relayer";
import type { FailedSpendLimiter } from "./failed-spends";
import { type PaymentRequest, refusal } from "./payment-request";

export interface WalletDeploymentsOptions {
  readonly config: FacilitatorConfig;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly failedSpends: Pick<FailedSpendLimiter, "add">;
}

/** Seconds past a payment's deadline after which it gets no row any more. */
const SWEEP_AFTER_SEC = 60;

export class WalletDeployments {
  readonly #options: WalletDeploymentsOptions;

  constructor(options: WalletDeploymentsOptions) {
    this.#options = options;
  }

  /**
   * Makes sure that the wallet of a good request is being deployed.
   * @returns "deploying": judge the request again after the next block; or why the wallet is not deployed
   * @throws Unavailable when the chain cannot be read
   */
  async deploy(request: PaymentRequest, deployment: WalletDeployment): Promise<"deploying" | TurnpikeError> {
    const { relayer } = this.#options;
    const { from } = request.authorization;
    const row = (await this.#find(from)) ?? (await this.#begin(request, deployment));
    if (row === "crowded") {
      return refusal("RateLimited", "losses", "too many wallets are being deployed for payments of this payee", {
        retryAfterSec: 10,
      });
    }
    if (row === "begun") return "deploying";
    const outcome = await relayer.outcome(row.transaction_id);
    // The wallet may have got its code since it was judged.
    if (outcome.kind !== "mined" || (await relayer.chain.code(from)) !== "0x") return "deploying";
    await this.#ending(from).where("transaction_id", "=", row.transaction_id).execute();
    return refusal("TransferFailed", "wallet_deployment", `the factory's call deployed no wallet at ${from}`);
  }

  /** Notes that a request which a wallet was deployed for is refused: it ends unless the payment is accepted after all. */
  async refused({ paymentId, signature, authorization: { from } }: PaymentRequest): Promise<void> {
    await this.#ending(from).where("payment_id", "=", paymentId).where("signature", "=", signature).execute();
  }

  /** Deletes the rows of ended deployments. Counts those that cost gas and whose payment was not accepted as losses. */
  async sweep(nowSec: number): Promise<void> {
    const { config, store, failedSpends } = this.#options;
    if (!config.walletFactories) return;
    const { rows } = await sql<{ wallet: string; pay_to: string; is_loss: boolean }>`
      with ended as (
        select d.chain_id, d.wallet, d.transaction_id, t.status = 'mined' and p.payment_id is null as is_loss
        from wallet_deployments d
        join transactions t on t.id = d.transaction_id and t.status in ('mined', 'displaced')
        left join payments p on p.chain_id = d.chain_id and p.payment_id = d.payment_id
        where d.chain_id = ${config.chainId}::bigint
          and (t.status = 'displaced' or p.payment_id is not null or d.valid_before <= ${nowSec - SWEEP_AFTER_SEC}::bigint))
      delete from wallet_deployments d using ended e
      where d.chain_id = e.chain_id and d.wallet = e.wallet and d.transaction_id = e.transaction_id
      returning d.wallet, d.pay_to, e.is_loss`.execute(store.db);
    for (const { wallet: payer, pay_to, is_loss } of rows) if (is_loss) await failedSpends.add({ payer, pay_to });
  }

  /** The next sweep ends the row, once its transaction has an outcome. */
  #ending(wallet: string) {
    const { config, store } = this.#options;
    return store.db
      .updateTable("wallet_deployments")
      .set({ valid_before: 0 })
      .where("chain_id", "=", config.chainId)
      .where("wallet", "=", wallet);
  }

  #find(wallet: string): Promise<WalletDeploymentsTable | undefined> {
    const { config, store } = this.#options;
    return store.db
      .selectFrom("wallet_deployments")
      .selectAll()
      .where("chain_id", "=", config.chainId)
      .where("wallet", "=", wallet)
      .executeTakeFirst();
  }

  /** Writes the row and the transaction together. @returns the row of another request that was faster */
  async #begin(
    { paymentId, signature, authorization: { from, to, validBefore } }: PaymentRequest,
    { factory, data }: WalletDeployment,
  ): Promise<WalletDeploymentsTable | "begun" | "crowded"> {
    const { config, store, relayer } = this.#options;
    const id = randomUUID();
    const isNew = await store.transaction(async (tx) => {
      // Until their payments are accepted, deployments count as possible losses of the payee.
      const { rows } = await sql`
        insert into wallet_deployments (chain_id, wallet, transaction_id, payment_id, signature, pay_to, valid_before)
        select ${config.chainId}::bigint, ${from}, ${id}, ${paymentId}, ${signature}, ${to}, ${validBefore.toString()}::bigint
        where (select count(*) from wallet_deployments d
          where d.chain_id = ${config.chainId}::bigint and d.pay_to = ${to}) < ${config.maxLossesPerPayee}::bigint
        on conflict (chain_id, wallet) do nothing returning wallet`.execute(tx);
      if (rows.length === 0) return false;
      const gasLimit = intrinsicGas(data) + BigInt(config.walletDeployGas);
      await relayer.submit({ id, purpose: "deploy", idempotencyKey: `deploy/${id}`, to: factory, data, gasLimit }, tx);
      return true;
    });
    if (!isNew) return (await this.#find(from)) ?? "crowded";
    relayer.poke();
    return "begun";
  }
}
