/** Lists the deliveries to one endpoint, and resends them. */
import { useEffect, useState } from "preact/hooks";
import type { WebhookEndpoint } from "turnpike/facilitator";
import { formatCount, formatTime } from "../format";
import { Alert, Choice, Cut, Empty, Hex, Narrow, Pager, Panel, Shown, Status, Table } from "../parts";
import { useGet, useQueryField, useSigned, useTrail } from "../use";

const LOOK_MS = 1_000;

const STATES = { "": "All", pending: "Pending", delivered: "Delivered", failed: "Failed", dropped: "Dropped" };

export function Deliveries({ of: { id: endpoint, url } }: { of: Pick<WebhookEndpoint, "id" | "url"> }) {
  const { api } = useSigned();
  const [round, setRound] = useState(0);
  const [problem, setProblem] = useState<string>();
  const [state, setState] = useQueryField("state", "");
  const trail = useTrail(state);
  const query = { limit: 20, cursor: trail.cursor, state: state || undefined };
  const list = useGet(`/webhook-endpoints/${endpoint}/deliveries`, query, round);
  const isWaiting = list.data?.deliveries.some(({ state }) => state === "pending");
  // A delivery is not an event: nothing signals its end.
  useEffect(() => {
    if (!isWaiting) return;
    const timer = setInterval(() => setRound((now) => now + 1), LOOK_MS);
    return () => clearInterval(timer);
  }, [isWaiting]);

  const resend = (eventId: string) =>
    api.send("POST", `/webhook-endpoints/${endpoint}/deliveries/${eventId}/resend`, {}).then(
      () => {
        setProblem(undefined);
        setRound((now) => now + 1);
      },
      (error: Error) => setProblem(error.message),
    );

  return (
    <Panel
      title="Deliveries"
      note={
        <>
          To <Cut text={url} />, newest first.
        </>
      }
      aside={<Choice label="State" value={state} options={STATES} onChange={setState} />}
    >
      <Alert text={problem} />
      <Shown of={list}>
        {({ deliveries, next }) => (
          <>
            <Table
              caption="Deliveries"
              empty={<Empty title={state === "" ? "No deliveries yet." : "No delivery is in this state."} />}
              rows={deliveries}
              id={({ eventId }) => eventId}
              columns={[
                {
                  title: "Event",
                  cell: (row) => (
                    <>
                      <a href={`#/deliveries/${endpoint}/${row.eventId}`}>{row.type}</a>
                      <span class="note line">{formatTime(row.createdAt)}</span>
                      {row.subject && (
                        <span class="note line">
                          <Hex value={row.subject} />
                        </span>
                      )}
                      <Narrow>
                        <Status of={row.state} />
                      </Narrow>
                    </>
                  ),
                },
                { title: "State", isMinor: true, cell: (row) => <Status of={row.state} /> },
                { title: "Attempts", isNumber: true, isMinor: true, cell: (row) => formatCount(row.attempts) },
                {
                  title: "Next attempt",
                  isMinor: true,
                  cell: (row) => (row.nextAttemptAt ? formatTime(row.nextAttemptAt) : "–"),
                },
                { title: "Id", isMinor: true, cell: (row) => <Hex value={row.eventId} /> },
                {
                  title: "Actions",
                  isNumber: true,
                  cell: (row) => (
                    <button type="button" aria-label={`Send again: ${row.type}`} onClick={() => resend(row.eventId)}>
                      Send again
                    </button>
                  ),
                },
              ]}
            />
            <Pager trail={trail} next={next} />
          </>
        )}
      </Shown>
    </Panel>
  );
}
