/** Emits events that passing time causes. They have no log on the chain, so their id is a hash of their contents. */
import { keccakText } from "turnpike/protocol";
import type { Tx } from "../../db/open";
import type { EventDraft } from "../../events/event";
import type { EventFeed } from "../../events/feed";
import { subscriptionPayload } from "../payloads";
import { recordsOf } from "../records";
import { subscriptionsOf } from "../rows";

export interface TimeEvent {
  readonly idHash: string;
  /** its period: nothing is published once the subscription is in another one */
  readonly paidThroughSec: number;
  readonly type: string;
  /** distinguishes it from others of the same type and period, e.g. the number of the attempt */
  readonly mark?: number | string;
  /** when it came about, unix seconds; default: when it is emitted */
  readonly atSec?: number;
  readonly more?: Readonly<Record<string, unknown>>;
}

/** @returns the number of new events */
export async function emitTimeEvents(
  tx: Tx,
  { chainId, feed }: { readonly chainId: number; readonly feed: EventFeed },
  events: readonly TimeEvent[],
  nowSec: number,
): Promise<number> {
  if (events.length === 0) return 0;
  await feed.lock(tx);
  const rows = await subscriptionsOf(tx, chainId, new Set(events.map((event) => event.idHash)));
  const recordOf = new Map((await recordsOf(tx, chainId, rows)).map((record) => [record.row.id_hash, record]));
  const drafts = events.flatMap(({ idHash, paidThroughSec, type, mark, atSec = nowSec, more }): EventDraft[] => {
    const record = recordOf.get(idHash);
    if (record?.row.paid_through !== paidThroughSec) return [];
    const { row, plan, allowance } = record;
    return [
      {
        id: keccakText([chainId, idHash, type, paidThroughSec, ...(mark === undefined ? [] : [mark])].join("/")),
        chainId,
        type,
        objectId: idHash,
        provider: plan.provider,
        payer: row.subscriber,
        payload: { ...subscriptionPayload(row, plan, allowance, atSec), ...more },
        blockTime: atSec,
      },
    ];
  });
  return feed.append(tx, drafts);
}
