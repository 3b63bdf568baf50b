/**
 * Accepts gates' reports of their requests. A report is a provider's statement about itself: it moves no money and
 * creates no proof.
 */
import { createHash } from "node:crypto";
import type { Report, ReportReceipt } from "turnpike/facilitator";
import { type Address, type Clock, InvalidRequest, TurnpikeError } from "turnpike/protocol";
import { type FacilitatorConfig, findToken } from "../config";
import type { Store } from "../db/open";
import { DAY_SEC, HOUR_SEC } from "../lib/durations";
import { addReported, countedAs, knownResources } from "./reported-sums";

export interface Reports {
  /** @throws InvalidRequest for a time or token that is not accepted; PayloadConflict for an id with other contents */
  take(provider: Address, report: Report): Promise<ReportReceipt>;
}

/** Maximum age of the hours that a report is about. Ids are kept longer, so that no report counts twice. */
export const MAX_AGE_SEC = DAY_SEC;

export interface ReportsDeps {
  readonly store: Store;
  readonly config: Pick<FacilitatorConfig, "chainId" | "tokens">;
  readonly clock: Clock;
}

export function createReports({ store, config, clock }: ReportsDeps): Reports {
  const { chainId } = config;
  return {
    async take(provider, report) {
      const nowSec = clock.nowSec();
      check(report, nowSec);
      const digest = digestOf(report);
      return store.transaction(async (tx) => {
        const inserted = await tx
          .insertInto("gate_reports")
          .values({ chain_id: chainId, provider, id: report.id, digest, accepted_at: nowSec })
          .onConflict((conflict) => conflict.columns(["chain_id", "provider", "id"]).doNothing())
          .returning("id")
          .executeTakeFirst();
        if (!inserted) {
          const { digest: stored } = await tx
            .selectFrom("gate_reports")
            .select("digest")
            .where("chain_id", "=", chainId)
            .where("provider", "=", provider)
            .where("id", "=", report.id)
            .executeTakeFirstOrThrow();
          if (stored !== digest)
            throw new TurnpikeError(
              "PayloadConflict",
              `report ${report.id} was submitted before with other contents: use a new id`,
            );
          return { status: "repeated" };
        }
        const wanted = new Set(report.entries.map(({ resource }) => resource));
        const known = await knownResources(tx, { chainId, provider }, wanted);
        const entries = report.entries.map((entry) => ({ ...entry, resource: countedAs(entry.resource, known) }));
        await addReported(tx, { chainId, provider }, entries);
        return { status: "counted" };
      });
    },
  };

  function check({ entries }: Report, nowSec: number): void {
    for (const [index, { hour, token }] of entries.entries()) {
      if (hour <= nowSec - MAX_AGE_SEC - HOUR_SEC || hour > nowSec + HOUR_SEC) {
        throw fault(index, "hour", "must be within the last day, by the chain's time");
      }
      if (token !== undefined && !findToken(config as FacilitatorConfig, token)) {
        throw fault(index, "token", "is none of this Facilitator's: see GET /supported");
      }
    }
  }
}

const fault = (index: number, name: string, message: string) => {
  const field = `entries.${index}.${name}`;
  return new InvalidRequest(`${field}: ${message}`, { details: { field, in: "body" } });
};

function digestOf({ entries }: Report): string {
  const text = JSON.stringify(entries, (_, value: unknown) => (typeof value === "bigint" ? value.toString() : value));
  return createHash("sha256").update(text).digest("hex");
}
