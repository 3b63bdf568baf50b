/**
 * Submits one call to the chain exactly once. The same key is the same transaction; a further attempt starts only when
 * the previous one can never confirm. Knows keys, calls and outcomes, but nothing of subscriptions.
 */
import { type Address, type Clock, type Hex, TurnpikeError, Unavailable } from "turnpike/protocol";
import type { ContractError } from "../chain/contract-errors";
import type { Db, Store } from "../db/open";
import type { Indexer } from "../indexer";
import type { Relayer } from "../relayer";
import type { ActCall } from "./acts";
import { countActsSince, latestAttempt, lockSigner, recordAct, UNLIMITED, wasUnlimited } from "./signed-acts";

export interface ActSenderDeps {
  readonly chainId: number;
  readonly store: Store;
  readonly relayer: Relayer;
  readonly indexer: Indexer;
  readonly clock: Clock;
  /** limit of a signer's transactions within an hour: acts cost the relayer gas and the signer nothing */
  readonly actsPerHour: number;
  readonly monotonicMs: () => number;
}

export interface Act {
  /** for logs and metrics, e.g. "subscribe" */
  readonly name: string;
  readonly key: string;
  /** idHash, or the token of a permit */
  readonly objectId: Hex;
  readonly signer: Address;
  readonly to: Address;
  /**
   * ends its object for good: the first of these for an object is not limited. There are no more of them than of acts
   * that began something, which are limited or cost their sender gas. Another signature for the same end is limited.
   */
  readonly isFinal?: boolean;
  /** Validates before anything is sent. @throws TurnpikeError with the reason not to send it */
  prepare(): Promise<ActCall>;
}

export type SendOutcome =
  | { readonly kind: "confirmed"; readonly transaction: Hex; readonly blockNumber: number }
  | { readonly kind: "pending" };

export interface ActSender {
  /**
   * @param untilMs monotonic
   * @throws TurnpikeError when nothing was sent, or the sent transaction can never confirm
   */
  send(act: Act, untilMs: number): Promise<SendOutcome>;
  /** Whether the act of that key was made by this transaction, and so was sent from here. */
  isOwn(key: string, transaction: Hex): Promise<boolean>;
  /** Runs a call without sending it. @throws the contract's error by name, or Unavailable */
  simulate(to: Address, call: ActCall): Promise<Hex>;
}

const HOUR_SEC = 3_600;

export function createActSender(deps: ActSenderDeps): ActSender {
  const { chainId, store, relayer, indexer, clock, monotonicMs } = deps;

  async function simulate(to: Address, { data, gasLimit }: ActCall): Promise<Hex> {
    const simulation = await relayer.simulate({ to, data, gas: gasLimit });
    if (simulation.kind === "reverted") throw refusalOf(simulation.error);
    return simulation.data;
  }

  async function awaited(transactionId: string, untilMs: number): Promise<SendOutcome | "never"> {
    const outcome = await relayer.waitFor(transactionId, Math.max(0, untilMs - monotonicMs()));
    if (outcome.kind === "displaced" || outcome.kind === "unknown") return "never";
    if (outcome.kind === "pending") return { kind: "pending" };
    if (!outcome.success) return "never";
    const isApplied = await indexer.waitApplied(outcome.blockNumber, Math.max(0, untilMs - monotonicMs()));
    if (!isApplied) return { kind: "pending" };
    return { kind: "confirmed", transaction: outcome.hash, blockNumber: outcome.blockNumber };
  }

  /** @returns the name to record @throws RateLimited */
  async function admitted(db: Db, { name, objectId, signer, isFinal }: Act, nowSec: number): Promise<string> {
    if (isFinal && !(await wasUnlimited(db, chainId, objectId))) return UNLIMITED;
    const recent = await countActsSince(db, chainId, signer, nowSec - HOUR_SEC);
    if (recent < deps.actsPerHour) return name;
    throw new TurnpikeError("RateLimited", `${signer} had ${recent} acts submitted within the hour`, {
      retryAfterSec: 60,
    });
  }

  async function submit(act: Act, attempt: number): Promise<string> {
    const nowSec = clock.nowSec();
    // Before the node is asked, and again when no other act of the signer can come between.
    await admitted(store.db, act, nowSec);
    const { data, gasLimit } = await act.prepare();
    const request = { purpose: act.name, idempotencyKey: `act:${act.key}:${attempt}`, to: act.to, data, gasLimit };
    const transactionId = await store.transaction(async (tx) => {
      const { key, objectId, signer } = act;
      await lockSigner(tx, chainId, signer);
      const twin = await latestAttempt(tx, chainId, key);
      if (twin && twin.attempt >= attempt) return twin.transaction_id;
      const name = await admitted(tx, act, nowSec);
      const id = await relayer.submit(request, tx);
      const row = { chain_id: chainId, act_key: key, attempt, act: name, object_id: objectId, signer };
      await recordAct(tx, { ...row, transaction_id: id, accepted_at: nowSec });
      return id;
    });
    relayer.poke();
    return transactionId;
  }

  return {
    simulate,
    async isOwn(key, transaction) {
      const sent = await latestAttempt(store.db, chainId, key);
      const outcome = sent && (await relayer.waitFor(sent.transaction_id, 0));
      return outcome !== undefined && "hash" in outcome && outcome.hash === transaction;
    },
    async send(act, untilMs) {
      const earlier = await latestAttempt(store.db, chainId, act.key);
      const known = earlier && (await awaited(earlier.transaction_id, untilMs));
      if (known && known !== "never") return known;

      const transactionId = await submit(act, earlier ? earlier.attempt + 1 : 0);
      const outcome = await awaited(transactionId, untilMs);
      if (outcome !== "never") return outcome;

      // It was valid when simulated and is not now: the chain reports the reason, or a retry may succeed.
      await act.prepare();
      throw new Unavailable("The chain did not take the transaction; nothing was done.", { retryAfterSec: 1 });
    },
  };
}

function refusalOf({ error: reported }: ContractError): TurnpikeError {
  // The contract reports an unknown record as not active.
  return reported.code === "SubscriptionNotActive" && reported.details.status === "NONE"
    ? new TurnpikeError("UnknownSubscription", undefined, { details: reported.details })
    : reported;
}
