/** Shows the deliveries to one endpoint with every attempt, and resends them. */
import { useEffect, useState } from "preact/hooks";
import { formatCount, formatTime } from "../format";
import { Empty, Hex, Narrow, Pager, Panel, Shown, Status, Table } from "../parts";
import { useGet, useSigned, useTrail } from "../use";

const LOOK_MS = 1_000;

export function Deliveries({ endpoint }: { endpoint: string }) {
  const { api } = useSigned();
  const [round, setRound] = useState(0);
  const [open, setOpen] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const trail = useTrail();
  const query = { limit: 20, cursor: trail.cursor };
  const list = useGet(`/webhook-endpoints/${endpoint}/deliveries`, query, round);
  const isWaiting = list.kind === "ready" && list.data.deliveries.some(({ state }) => state === "pending");
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
    <Panel title="Deliveries" note="Newest first.">
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {open && (
        <Attempts key={`${open} ${round}`} endpoint={endpoint} event={open} onClose={() => setOpen(undefined)} />
      )}
      <Shown of={list}>
        {({ deliveries, next }) => (
          <>
            <Table
              caption="Deliveries"
              empty={<Empty title="No deliveries yet." />}
              rows={deliveries}
              columns={[
                {
                  title: "Event",
                  cell: (row) => (
                    <>
                      {row.type}
                      <span class="note line">{formatTime(row.createdAt)}</span>
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
                    <span class="buttons">
                      <button
                        type="button"
                        aria-label={`Attempts of ${row.type}`}
                        aria-expanded={open === row.eventId}
                        onClick={() => setOpen(open === row.eventId ? undefined : row.eventId)}
                      >
                        Attempts
                      </button>
                      <button type="button" aria-label={`Send again: ${row.type}`} onClick={() => resend(row.eventId)}>
                        Send again
                      </button>
                    </span>
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

function Attempts({ endpoint, event, onClose }: { endpoint: string; event: string; onClose: () => void }) {
  const detail = useGet(`/webhook-endpoints/${endpoint}/deliveries/${event}`);
  return (
    <div class="inset">
      <Shown of={detail}>
        {({ log, type, eventId }) => (
          <>
            <p>
              <strong>{type}</strong> <Hex value={eventId} />{" "}
              <button type="button" class="quiet" onClick={onClose}>
                Close
              </button>
            </p>
            <Table
              caption="Attempts"
              empty="No attempt yet."
              rows={log}
              columns={[
                { title: "Attempt", isNumber: true, cell: (row) => String(row.number) },
                { title: "At", cell: (row) => formatTime(row.at) },
                {
                  title: "Response",
                  cell: (row) => (row.statusCode ? `HTTP ${row.statusCode}` : (row.error ?? "none")),
                },
                { title: "Took", isNumber: true, cell: (row) => `${row.durationMs} ms` },
              ]}
            />
          </>
        )}
      </Shown>
    </div>
  );
}
