/** Shows one delivery: what was sent, how the receiver answered each time, and sends it again. */
import { useEffect, useState } from "preact/hooks";
import { Copy } from "../copy";
import { escapedText, formatMoment, formatTime } from "../format";
import { Whole } from "../links";
import { Alert, Empty, Panel, Shown, Status, Table } from "../parts";
import { useGet, useHeading, useSigned } from "../use";
import { Rows } from "./story";

const LOOK_MS = 1_000;

export function DeliveryPage({ endpoint, event }: { endpoint: string; event: string }) {
  const { api } = useSigned();
  const [round, setRound] = useState(0);
  const [problem, setProblem] = useState<string>();
  const detail = useGet(`/webhook-endpoints/${endpoint}/deliveries/${event}`, {}, round);
  useHeading(detail.data && `Delivery of ${detail.data.type}, ${formatTime(detail.data.createdAt)}`);
  const isWaiting = detail.data?.state === "pending";
  // A delivery is not an event: nothing signals its end.
  useEffect(() => {
    if (!isWaiting) return;
    const timer = setInterval(() => setRound((now) => now + 1), LOOK_MS);
    return () => clearInterval(timer);
  }, [isWaiting]);

  const resend = () =>
    api.send("POST", `/webhook-endpoints/${endpoint}/deliveries/${event}/resend`, {}).then(
      () => {
        setProblem(undefined);
        setRound((now) => now + 1);
      },
      (error: Error) => setProblem(error.message),
    );

  return (
    <>
      <Alert text={problem} />
      <Shown of={detail}>
        {({ log, state, createdAt, nextAttemptAt, body }) => (
          <>
            <Panel
              title="Attempts"
              aside={
                <button type="button" class="main" onClick={resend}>
                  Send again
                </button>
              }
            >
              <Rows
                of={{
                  State: <Status of={state} />,
                  Event: <Whole value={event} what="the event's id" />,
                  Queued: formatMoment(createdAt),
                  "Next attempt": nextAttemptAt !== undefined && formatMoment(nextAttemptAt),
                }}
              />
              <Table
                caption="Attempts"
                empty={<Empty title="No attempt yet." />}
                rows={log}
                columns={[
                  { title: "Attempt", cell: (row) => String(row.number) },
                  { title: "At", cell: (row) => formatMoment(row.at) },
                  {
                    title: "Answer",
                    cell: (row) => (row.statusCode ? `HTTP ${row.statusCode}` : (row.error ?? "none")),
                  },
                  { title: "Took", isNumber: true, isMinor: true, cell: (row) => `${row.durationMs} ms` },
                ]}
              />
            </Panel>
            <Panel
              title="Payload"
              note="The same at every attempt. Of answers the status alone is kept."
              {...(body !== undefined && { aside: <Copy value={body} what="the payload" /> })}
            >
              {body === undefined ? <Empty title="Its event was deleted because of its age." /> : <Json of={body} />}
            </Panel>
          </>
        )}
      </Shown>
    </>
  );
}

function Json({ of }: { of: string }) {
  const lines = JSON.stringify(JSON.parse(of), null, 2).split("\n");
  return (
    <pre>
      <bdi>{lines.map(escapedText).join("\n")}</bdi>
    </pre>
  );
}
