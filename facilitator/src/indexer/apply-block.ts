/**
 * What a block means: from its facts and the rows before it to the rows after it and the events to tell. Pure; the rules
 * of Turnpike's records stand here a second time, and a test replays random histories against the contract.
 */
import type { EventDraft } from "../store/tables/events";
import { applyUsed, failPayment } from "./apply-payments";
import { applyTurnpike } from "./apply-turnpike";
import type { BlockInput } from "./block-input";
import type { BlockState } from "./block-state";

/** Changes `state`. @returns the events, in order */
export function applyBlock(input: BlockInput, state: BlockState): EventDraft[] {
  const events: EventDraft[] = [];
  for (const fact of input.facts) {
    switch (fact.kind) {
      case "authorizationUsed":
        applyUsed(input, state, fact, events);
        break;
      case "authorizationCanceled":
        failPayment(
          input,
          state,
          fact.paymentId,
          { reason: "cancelled", logIndex: fact.logIndex, transaction: fact.transaction },
          events,
        );
        break;
      case "turnpike":
        applyTurnpike(input, state, fact, events);
        break;
    }
  }
  for (const paymentId of input.expired) failPayment(input, state, paymentId, { reason: "expired" }, events);
  return events;
}
