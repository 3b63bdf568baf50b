/** Where events are sent, how it went, and what can be done about it. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import type {
  deliveryDetailSchema,
  deliveryListSchema,
  newEndpointSchema,
  rotatedSecretSchema,
  WebhookEndpoint,
} from "turnpike/facilitator";
import type { z } from "zod";
import { formatTime } from "../format";
import { Hex, Panel, Shown, Status, Table } from "../parts";
import { useGet, useQueryField, useSigned } from "../use";

const LOOK_MS = 1_000;

type Deliveries = z.input<typeof deliveryListSchema>;
type Detail = z.input<typeof deliveryDetailSchema>;

export function Webhooks() {
  const { api } = useSigned();
  const [round, setRound] = useState(0);
  const list = useGet<{ endpoints: WebhookEndpoint[] }>("/webhook-endpoints", {}, round);
  const [chosen, choose] = useQueryField("endpoint", "");
  const [told, setTold] = useState<ComponentChildren>();
  const [problem, setProblem] = useState<string>();

  async function act(what: () => Promise<ComponentChildren>): Promise<void> {
    setProblem(undefined);
    setTold(undefined);
    try {
      setTold(await what());
      setRound((now) => now + 1);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : "It did not work.");
    }
  }

  return (
    <>
      <Panel
        title="Endpoints"
        note="Every event is sent to each enabled endpoint, at least once, signed as Standard Webhooks."
      >
        <Shown of={list}>
          {({ endpoints }) => (
            <Table
              caption="Webhook endpoints"
              empty="No endpoint yet. Add one below; the API does the same at POST /webhook-endpoints."
              rows={endpoints}
              columns={[
                { title: "Address", cell: (row) => row.url },
                { title: "State", cell: (row) => <Status of={row.status} /> },
                { title: "Events", cell: (row) => (row.types ? row.types.join(", ") : "all") },
                { title: "Failures in a row", isNumber: true, cell: (row) => String(row.failures) },
                {
                  title: "Actions",
                  cell: (row) => (
                    <>
                      <button type="button" aria-label={`Deliveries to ${row.url}`} onClick={() => choose(row.id)}>
                        Deliveries
                      </button>{" "}
                      <button
                        type="button"
                        aria-label={`Send a test to ${row.url}`}
                        disabled={row.status === "disabled"}
                        onClick={() =>
                          act(async () => {
                            await api.send("POST", `/webhook-endpoints/${row.id}/test`, {});
                            choose(row.id);
                            return "A test event is on its way.";
                          })
                        }
                      >
                        Test
                      </button>{" "}
                      <button
                        type="button"
                        aria-label={`Rotate the secret of ${row.url}`}
                        onClick={() =>
                          act(async () => {
                            const { secret, previousExpiresAt } = await api.send<z.input<typeof rotatedSecretSchema>>(
                              "POST",
                              `/webhook-endpoints/${row.id}/rotate-secret`,
                              {},
                            );
                            return (
                              <Secret
                                value={secret}
                                note={`The old one signs too until ${formatTime(previousExpiresAt)}.`}
                              />
                            );
                          })
                        }
                      >
                        Rotate
                      </button>{" "}
                      <button
                        type="button"
                        aria-label={`${row.status === "enabled" ? "Disable" : "Enable"} ${row.url}`}
                        onClick={() =>
                          act(async () => {
                            await api.send("PATCH", `/webhook-endpoints/${row.id}`, {
                              enabled: row.status !== "enabled",
                            });
                            return undefined;
                          })
                        }
                      >
                        {row.status === "enabled" ? "Disable" : "Enable"}
                      </button>
                    </>
                  ),
                },
              ]}
            />
          )}
        </Shown>
        <form
          class="controls"
          onSubmit={(event) => {
            event.preventDefault();
            const form = event.currentTarget;
            const url = new FormData(form).get("url");
            void act(async () => {
              const { secret } = await api.send<z.input<typeof newEndpointSchema>>("POST", "/webhook-endpoints", {
                url,
              });
              form.reset();
              return <Secret value={secret} note="Deliveries are signed with it." />;
            });
          }}
        >
          <label class="choice">
            <span>New endpoint</span>
            <input type="url" name="url" required placeholder="https://example.com/turnpike" />
          </label>
          <button type="submit">Add</button>
        </form>
        <div role="status">{told}</div>
        {problem && (
          <p class="problem" role="alert">
            {problem}
          </p>
        )}
      </Panel>
      {chosen && <DeliveriesOf key={`${chosen} ${round}`} endpoint={chosen} />}
    </>
  );
}

function Secret({ value, note }: { value: string; note: string }) {
  return (
    <p>
      Secret, shown this once: <code>{value}</code>. {note}
    </p>
  );
}

function DeliveriesOf({ endpoint }: { endpoint: string }) {
  const { api } = useSigned();
  const [round, setRound] = useState(0);
  const [open, setOpen] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const list = useGet<Deliveries>(`/webhook-endpoints/${endpoint}/deliveries`, { limit: 50 }, round);
  const isWaiting = list.kind === "ready" && list.data.deliveries.some(({ state }) => state === "pending");
  // A delivery is no event: nothing tells of its end.
  useEffect(() => {
    if (!isWaiting) return;
    const timer = setInterval(() => setRound((now) => now + 1), LOOK_MS);
    return () => clearInterval(timer);
  }, [isWaiting]);
  return (
    <Panel title="Deliveries" note="Newest first.">
      <Shown of={list}>
        {({ deliveries }) => (
          <Table
            caption="Deliveries"
            empty="Nothing was sent to it yet."
            rows={deliveries}
            columns={[
              { title: "Event", cell: (row) => row.type },
              { title: "State", cell: (row) => <Status of={row.state} /> },
              { title: "Made", cell: (row) => formatTime(row.createdAt) },
              { title: "Attempts", isNumber: true, cell: (row) => String(row.attempts) },
              { title: "Next attempt", cell: (row) => (row.nextAttemptAt ? formatTime(row.nextAttemptAt) : "–") },
              { title: "Id", cell: (row) => <Hex value={row.eventId} /> },
              {
                title: "Actions",
                cell: (row) => (
                  <>
                    <button type="button" onClick={() => setOpen(open === row.eventId ? undefined : row.eventId)}>
                      Attempts
                    </button>{" "}
                    <button
                      type="button"
                      onClick={() =>
                        api.send("POST", `/webhook-endpoints/${endpoint}/deliveries/${row.eventId}/resend`, {}).then(
                          () => {
                            setProblem(undefined);
                            setRound((now) => now + 1);
                          },
                          (error: Error) => setProblem(error.message),
                        )
                      }
                    >
                      Send again
                    </button>
                  </>
                ),
              },
            ]}
          />
        )}
      </Shown>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      {open && <Attempts endpoint={endpoint} event={open} />}
    </Panel>
  );
}

function Attempts({ endpoint, event }: { endpoint: string; event: string }) {
  const detail = useGet<Detail>(`/webhook-endpoints/${endpoint}/deliveries/${event}`);
  return (
    <Shown of={detail}>
      {({ log }) => (
        <Table
          caption="Attempts"
          empty="No attempt yet."
          rows={log}
          columns={[
            { title: "Attempt", isNumber: true, cell: (row) => String(row.number) },
            { title: "At", cell: (row) => formatTime(row.at) },
            { title: "Answer", cell: (row) => (row.statusCode ? `HTTP ${row.statusCode}` : (row.error ?? "none")) },
            { title: "Took", isNumber: true, cell: (row) => `${row.durationMs} ms` },
          ]}
        />
      )}
    </Shown>
  );
}
