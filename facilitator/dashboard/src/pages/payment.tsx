/** Shows all of one payment: what was requested, signed, sent, proved, refunded and reported, and why it is stuck. */
import type { PaymentStoryWire } from "turnpike/facilitator";
import { escapedText, formatMoment, shorten } from "../format";
import { OnChain, Whole } from "../links";
import { Panel, PayerLink, Shown, Status } from "../parts";
import { useGet, useHeading, useMoney, useNamedMoney, useRound, useSigned } from "../use";
import { Refund } from "./refund";
import { Chain, Kept, type Moment, Refunds, Rows, Sent, Timeline } from "./story";
import { whyOf } from "./stuck";

/** A payment that is under way changes without an event. */
const LOOK_MS = 2_000;

export function PaymentPage({ id }: { id: string }) {
  const round = useRound(LOOK_MS);
  const story = useGet(`/analytics/payments/${id}`, {}, round);
  return <Shown of={story}>{(payment) => <Story of={payment} />}</Shown>;
}

function Story({ of }: { of: PaymentStoryWire }) {
  const money = useMoney();
  const { api, supported } = useSigned();
  const { status, door, method, permitted } = of;
  useHeading(`Payment of ${useNamedMoney()(of.amount, of.token)} by ${shorten(of.payer)}`);
  return (
    <>
      <Stuck of={of} />
      <Panel title="Request">
        <Rows
          of={{
            Status: (
              <>
                <Status of={status} />
                {of.reason && ` ${of.reason}`}
                {of.detail && ` (${of.detail})`}
              </>
            ),
            Amount: <Kept of={of} />,
            Payment: <Whole value={of.id} what="the payment's id" />,
            Payer: (
              <Whole value={of.payer} what="the payer">
                <PayerLink of={of.payer} />
              </Whole>
            ),
            "Paid to": <OnChain of="address" value={of.payTo} short />,
            Resource: of.resource && (
              <Whole value={of.resource} what="the resource">
                <bdi>{escapedText(of.resource)}</bdi>
              </Whole>
            ),
            Memo: of.memo !== undefined && (
              <Whole value={of.memo} what="the memo">
                <code>
                  <bdi>{escapedText(of.memo)}</bdi>
                </code>
              </Whole>
            ),
          }}
        />
      </Panel>
      {status === "settled" && (
        <Refund
          of={of}
          what="payment"
          target={{ type: "payment", paymentId: of.id }}
          load={() => api.get(`/analytics/payments/${of.id}`)}
        />
      )}
      <Panel title="Authorization and settlement">
        <Rows
          of={{
            "Signed for": method === "eip3009" ? "the token's transfer (EIP-3009)" : `Permit2 (${method})`,
            "At most": permitted !== undefined && money(permitted, of.token),
            Nonce: <Whole value={of.nonce} what="the nonce" />,
            "Valid until": formatMoment(of.validBefore),
            Attempts: String(of.attempts),
          }}
        />
        <Chain of={of} />
        <Rows
          of={{
            Proof:
              door === "authorize" && status === "settled" ? (
                <>
                  signed by <OnChain of="address" value={supported.proofSigners[0] ?? ""} short /> for a client that
                  sends the same request again
                </>
              ) : (
                door === "settle" && (of.grantedAt ? "granted to one purchase" : "not granted to a purchase yet")
              ),
          }}
        />
      </Panel>
      <Timeline of={momentsOf(of, (amount) => money(amount, of.token))} />
      <Refunds of={of} />
      <Sent of={of} />
    </>
  );
}

function Stuck({ of }: { of: PaymentStoryWire }) {
  const why = whyOf(of, useGet("/analytics/system").data);
  if (!why) return null;
  return (
    <section class="panel why" aria-label="Why it is not settled">
      <p>
        <strong>{why.reason}</strong>
      </p>
      <p>{why.action}</p>
    </section>
  );
}

function momentsOf(of: PaymentStoryWire, money: (amount: string) => string): Moment[] {
  const accepted: Moment = { at: of.acceptedAt, what: "accepted", note: "by the service's clock" };
  const moments: Moment[] = [];
  if (of.settledAt !== undefined) moments.push({ at: of.settledAt, what: "settled", note: "time of its block" });
  if (of.grantedAt !== undefined) moments.push({ at: of.grantedAt, what: "granted", note: "to its purchase" });
  for (const { settledAt, acceptedAt, amount, status, reason } of of.refunds) {
    if (settledAt !== undefined)
      moments.push({ at: settledAt, what: "refunded", tone: "waiting", note: money(amount) });
    else
      moments.push({
        at: acceptedAt,
        what: `refund ${status}`,
        tone: status === "failed" ? "bad" : "waiting",
        note: reason,
      });
  }
  for (const { type, finishedAt, createdAt, state } of of.deliveries ?? []) {
    const tone = state === "delivered" ? "good" : state === "pending" ? "waiting" : "bad";
    moments.push({ at: finishedAt ?? createdAt, what: `webhook ${state}`, tone, note: type });
  }
  if (of.status === "failed")
    moments.push({ at: of.validBefore, what: "failed", tone: "bad", note: of.detail ?? of.reason });
  // The chain's clock may be behind the service's: a payment is accepted first nevertheless.
  return [accepted, ...moments.sort((a, b) => a.at - b.at)];
}
