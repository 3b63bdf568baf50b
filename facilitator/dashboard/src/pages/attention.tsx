/** Shows what needs its owner now, each with what helps. Nothing is shown where all is well. */
import { type ComponentChildren, Fragment } from "preact";
import type { AttentionWire } from "turnpike/facilitator";
import { escapedText, formatCount, formatSpan, formatTime, plural } from "../format";
import { Cut, Hex, Panel, PayerLink, Shown } from "../parts";
import { useGet, useMoney, useRound, useSigned } from "../use";

/** A payment that does not settle emits no event. */
const POLL_MS = 10_000;

/** A key's gas for fewer days is shown. */
const FEW_DAYS = 7;

const isFew = (daysLeft: number | undefined): daysLeft is number => daysLeft !== undefined && daysLeft < FEW_DAYS;

interface Matter {
  readonly id: string;
  readonly what: ComponentChildren;
  readonly help: ComponentChildren;
}

export function Attention() {
  const { who } = useSigned();
  const attention = useGet("/analytics/attention", {}, useRound(POLL_MS));
  return (
    <>
      <Shown of={attention}>{(data) => <OfProvider data={data} />}</Shown>
      {who.isOperator && <OfOperator />}
    </>
  );
}

function Matters({ title, matters }: { title: string; matters: readonly Matter[] }) {
  if (matters.length === 0) return null;
  return (
    <Panel title={title}>
      <ul class="matters">
        {matters.map(({ id, what, help }) => (
          <li key={id}>
            <span>{what}</span> <span class="note">{help}</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

const WAITS_FOR: Readonly<Record<AttentionWire["stuck"][number]["state"], string>> = {
  queued: "It is in no transaction yet: see whether a relayer key can send, on System.",
  sent: "Its transaction is not mined yet: the service raises its fee by itself.",
  parked:
    "It was mined without moving the money. It is tried again until it expires; the payer's funds may not suffice.",
};

function OfProvider({ data: { pastDue, atRisk, endpoints, stuck } }: { data: AttentionWire }) {
  const money = useMoney("short");
  const all = useMoney();
  const nowSec = Date.now() / 1_000;
  const matters: Matter[] = [
    ...pastDue.map(({ token, count, amount, since }) => ({
      id: `late ${token}`,
      what: (
        <>
          <strong>{plural(count, "renewal")} past due</strong> now, {money(amount, token)}, the first since{" "}
          {formatTime(since)}.
        </>
      ),
      help: (
        <>
          Each is tried again until its grace ends. See the <a href="#/subscriptions">subscriptions</a> and the{" "}
          <a href="#/funnel">causes</a>.
        </>
      ),
    })),
    ...atRisk.map(({ token, count, amount, firstAt }) => ({
      id: `risk ${token}`,
      what: (
        <>
          <strong>{plural(count, "renewal")} at risk</strong> in the next seven days, {money(amount, token)}, the first
          at {formatTime(firstAt)}.
        </>
      ),
      help: (
        <>
          These subscribers lack funds or approval, and were warned. <a href="#/subscriptions">See the subscriptions</a>
        </>
      ),
    })),
    ...endpoints.map(({ id, url, failures, status }) => ({
      id,
      what: (
        <>
          <strong>{status === "disabled" ? "A webhook endpoint is disabled" : "A webhook endpoint fails"}</strong>:{" "}
          <Cut text={url} />
          {status === "enabled" && `, ${plural(failures, "attempt")} since its last success`}.
        </>
      ),
      help: <a href="#/webhooks">See the answers, and send again</a>,
    })),
    ...stuck.map(({ paymentId, payer, token, amount, acceptedAt, state }) => ({
      id: paymentId,
      what: (
        <>
          <strong>A payment of {all(amount, token)} waits</strong> for {formatSpan(Math.max(0, nowSec - acceptedAt))},
          by <PayerLink of={payer} />.
        </>
      ),
      help: (
        <>
          {WAITS_FOR[state]} <a href={`#/payments/${paymentId}`}>See why, and what helps</a>
        </>
      ),
    })),
  ];
  return <Matters title="Needs attention" matters={matters} />;
}

function OfOperator() {
  const system = useGet("/operator/system", {}, useRound(POLL_MS));
  return (
    <Shown of={system}>
      {({ lanes, reconciled }) => (
        <Matters
          title="The service needs attention"
          matters={[
            ...lanes
              .filter(({ isWell, daysLeft }) => !isWell || isFew(daysLeft))
              .map(({ address, daysLeft, isWell, reason }) => ({
                id: address,
                what: (
                  <>
                    <strong>
                      {isFew(daysLeft) ? `Gas for ${plural(daysLeft, "day")}` : "A relayer key cannot work"}
                    </strong>
                    : <Hex value={address} />
                    {reason && `, ${reason}`}
                    {!isWell && isFew(daysLeft) && ", too few coins to send with"}.
                  </>
                ),
                help: "Send coins to this address, as System shows its balance.",
              })),
            ...(reconciled && reconciled.differences > 0
              ? [
                  {
                    id: "reconcile",
                    what: (
                      <>
                        <strong>{formatCount(reconciled.differences)} differences</strong> between database and chain,
                        found {formatSpan(reconciled.ageSec)} ago
                        {(reconciled.first ?? []).map((difference) => (
                          <Fragment key={difference}>
                            <br />
                            <code>
                              <bdi>{escapedText(difference)}</bdi>
                            </code>
                          </Fragment>
                        ))}
                      </>
                    ),
                    help: (
                      <>
                        Keep a backup, stop every process, run <code>facilitator reindex --wipe</code>, then{" "}
                        <code>facilitator reconcile</code>: once it finds none, this is gone.
                      </>
                    ),
                  },
                ]
              : []),
          ]}
        />
      )}
    </Shown>
  );
}
