/**
 * Limits the gas that one payer's payments cost within an hour, those that settle included. Counts payments whose gas the
 * payer has a say in: those of contract wallets, and those over Permit2. A transfer that a key signed for its token costs
 * what the token makes it cost. The counts are in the database; payments since they were read are counted on top.
 */
import { sql } from "kysely";
import type { TurnpikeError } from "turnpike/protocol";
import type { Db } from "../db/open";
import { databaseNowMs } from "../db/sql";
import { refusal } from "./payment-request";

export interface PayerGasLimiter {
  /** Loads what each payer has cost, at most once a second. */
  refresh(): Promise<void>;
  /** Returns why no more is sent for a payer. */
  refusalOf(payer: string): TurnpikeError | undefined;
  add(payer: string): TurnpikeError | undefined;
  /** Returns the gas of the payer who costs most, as a share of the limit. */
  highestShare(): number;
}

interface Options {
  readonly db: Db;
  readonly chainId: number;
  /** gas within an hour */
  readonly perPayer: number;
  /** gas that a payment may use, counted while it is in no transaction */
  readonly perPayment: number;
  readonly monotonicMs: () => number;
}

const HOUR_MS = 60 * 60 * 1_000;

const REFRESH_MS = 1_000;

export function createPayerGasLimiter({ db, chainId, perPayer, perPayment, monotonicMs }: Options): PayerGasLimiter {
  let used = new Map<string, number>();
  let refreshedAtMs = Number.NEGATIVE_INFINITY;

  const refusalAt = (payer: string, gas: number): TurnpikeError | undefined => {
    if ((used.get(payer) ?? 0) + gas <= perPayer) return undefined;
    const message = `payments of this payer cost ${used.get(payer) ?? 0} gas within an hour, of ${perPayer} at most`;
    return refusal("RateLimited", "gas", message, { retryAfterSec: 600 });
  };

  return {
    async refresh() {
      if (monotonicMs() - refreshedAtMs < REFRESH_MS) return;
      // A batch's gas is shared by its payments.
      const { rows } = await sql<{ payer: string; gas: number }>`
        select payer, ceil(sum(gas))::float8 as gas from (
          select p.payer, coalesce(case t.status when 'mined' then t.gas_used else t.gas_limit end::numeric
              / count(*) over (partition by t.id), ${perPayment}::numeric) as gas
          from payments p left join transactions t on t.id = p.transaction_id
          where p.chain_id = ${chainId}::bigint and (p.has_code or p.method <> 'eip3009')
            and p.state <> 'waived' and p.accepted_at_ms > ${databaseNowMs} - ${HOUR_MS}::bigint) g
        group by payer`.execute(db);
      used = new Map(rows.map(({ payer, gas }) => [payer, gas]));
      refreshedAtMs = monotonicMs();
    },
    refusalOf: (payer) => refusalAt(payer, 1),
    add(payer) {
      const refused = refusalAt(payer, perPayment);
      if (!refused) used.set(payer, (used.get(payer) ?? 0) + perPayment);
      return refused;
    },
    highestShare() {
      let highest = 0;
      for (const gas of used.values()) if (gas > highest) highest = gas;
      return highest / perPayer;
    },
  };
}
