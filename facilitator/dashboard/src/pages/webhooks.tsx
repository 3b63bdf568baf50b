/** Manages webhook endpoints: create, change, test, rotate secrets, remove. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { WebhookEndpoint } from "turnpike/facilitator";
import { Copy } from "../copy";
import { escapedText, formatTime, plural } from "../format";
import { Alert, Empty, Panel, Shown, Status } from "../parts";
import { useGet, usePlace, useQueryField, useSigned } from "../use";
import { Deliveries } from "./deliveries";
import { type EndpointFields, EndpointForm } from "./endpoint-form";

type Editing = { readonly kind: "new" } | { readonly kind: "change"; readonly endpoint: WebhookEndpoint };

export function Webhooks() {
  const { api } = useSigned();
  const [round, setRound] = useState(0);
  const list = useGet("/webhook-endpoints", {}, round);
  const [chosen, choose] = useQueryField("endpoint", "");
  // Until one is chosen, the first endpoint's deliveries are shown.
  const all = list.data?.endpoints ?? [];
  const shown = chosen ? all.find(({ id }) => id === chosen) : all[0];
  const { query } = usePlace();
  const [editing, edit] = useState<Editing | undefined>(query.has("add") ? { kind: "new" } : undefined);
  const [removing, askRemoval] = useState<WebhookEndpoint>();
  const [notice, setNotice] = useState<ComponentChildren>();
  const [problem, setProblem] = useState<string>();

  const opener = useRef<HTMLElement>();
  const confirm = useRef<HTMLButtonElement>(null);
  const add = useRef<HTMLButtonElement>(null);
  useEffect(() => confirm.current?.focus(), [removing?.id]);

  /** Moves the focus into what opens, and back to the button that opened it. */
  function remember(isOpening: boolean): void {
    setProblem(undefined);
    if (isOpening) {
      opener.current = document.activeElement instanceof HTMLElement ? document.activeElement : undefined;
      return;
    }
    const last = opener.current;
    requestAnimationFrame(() => (last?.isConnected ? last : add.current)?.focus());
  }

  function open(what: Editing | undefined): void {
    remember(what !== undefined);
    edit(what);
  }

  function ask(endpoint: WebhookEndpoint | undefined): void {
    remember(endpoint !== undefined);
    askRemoval(endpoint);
  }

  async function act(what: () => Promise<ComponentChildren>): Promise<void> {
    setProblem(undefined);
    setNotice(undefined);
    try {
      setNotice(await what());
      setRound((now) => now + 1);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : "It did not work.");
    }
  }

  const save = (fields: EndpointFields) =>
    act(async () => {
      if (editing?.kind === "change") {
        await api.send("PATCH", `/webhook-endpoints/${editing.endpoint.id}`, fields);
        open(undefined);
        return "The endpoint is changed.";
      }
      const { types, ...rest } = fields;
      const body = { ...rest, ...(types && { types }) };
      const { secret } = await api.send("POST", "/webhook-endpoints", body);
      open(undefined);
      return <Secret value={secret} note="Deliveries are signed with it." />;
    });

  const rotate = ({ id }: WebhookEndpoint) =>
    act(async () => {
      const path = `/webhook-endpoints/${id}/rotate-secret` as const;
      const { secret, previousExpiresAt } = await api.send("POST", path, {});
      return <Secret value={secret} note={`The old one signs too until ${formatTime(previousExpiresAt)}.`} />;
    });

  const test = ({ id }: WebhookEndpoint) =>
    act(async () => {
      await api.send("POST", `/webhook-endpoints/${id}/test`, {});
      choose(id);
      return "A test event is on its way.";
    });

  const turn = ({ id }: WebhookEndpoint, enabled: boolean) =>
    act(async () => {
      await api.send("PATCH", `/webhook-endpoints/${id}`, { enabled });
      return undefined;
    });

  type Act = readonly [name: string, label: string, act: () => void, isOff?: boolean];
  const actsOn = (row: WebhookEndpoint, isOneOfMany: boolean): readonly Act[] => {
    const isOn = row.status === "enabled";
    return [
      ...(isOneOfMany ? [["Deliveries", "Deliveries to", () => choose(row.id)] as const] : []),
      ["Test", "Send a test to", () => test(row), !isOn],
      ["Edit", "Edit", () => open({ kind: "change", endpoint: row })],
      ["Rotate", "Rotate the secret of", () => rotate(row)],
      isOn ? ["Disable", "Disable", () => turn(row, false)] : ["Enable", "Enable", () => turn(row, true)],
      ["Remove", "Remove", () => ask(row)],
    ];
  };

  return (
    <>
      <Panel
        title="Endpoints"
        note="Each enabled endpoint gets the events that it names, at least once, signed as Standard Webhooks."
        aside={
          <button type="button" class="main" ref={add} onClick={() => open({ kind: "new" })}>
            Add an endpoint
          </button>
        }
      >
        {editing && (
          <EndpointForm
            key={editing.kind === "change" ? editing.endpoint.id : "new"}
            {...(editing.kind === "change" && { endpoint: editing.endpoint })}
            onSave={save}
            onCancel={() => open(undefined)}
          />
        )}
        <div role="status">{notice}</div>
        <Alert text={problem} />
        {removing && (
          <p class="ask" role="alertdialog" aria-label="Remove the endpoint">
            Remove {removing.url} with its deliveries?{" "}
            <button
              type="button"
              class="danger"
              ref={confirm}
              onClick={() =>
                act(async () => {
                  await api.send("DELETE", `/webhook-endpoints/${removing.id}`);
                  // The button that had the focus disappears with the endpoint.
                  opener.current = undefined;
                  ask(undefined);
                  choose("");
                  return "The endpoint is removed.";
                })
              }
            >
              Remove it
            </button>{" "}
            <button type="button" onClick={() => ask(undefined)}>
              Keep it
            </button>
          </p>
        )}
        <Shown of={list}>
          {({ endpoints }) =>
            endpoints.length === 0 ? (
              <Empty title="No endpoint yet.">
                Add one to hear of payments, renewals and failures as they happen; the API does the same at{" "}
                <code>POST /webhook-endpoints</code>.
              </Empty>
            ) : (
              <ul class="endpoints" aria-label="Webhook endpoints">
                {endpoints.map((row) => (
                  <li key={row.id} aria-current={row.id === shown?.id ? "true" : undefined}>
                    <div>
                      <code>{row.url}</code>
                      <p class="facts">
                        <Standing of={row} />
                        {row.description && <span>{escapedText(row.description)}</span>}
                        <Types of={row.types} />
                        {row.failures > 0 && <span class="note bad">{plural(row.failures, "failure")} in a row</span>}
                      </p>
                    </div>
                    <span class="buttons">
                      {actsOn(row, endpoints.length > 1).map(([name, label, onClick, isOff = false]) => (
                        <button
                          key={name}
                          type="button"
                          aria-label={`${label} ${row.url}`}
                          disabled={isOff}
                          onClick={onClick}
                        >
                          {name}
                        </button>
                      ))}
                    </span>
                  </li>
                ))}
              </ul>
            )
          }
        </Shown>
      </Panel>
      {shown && <Deliveries key={`${shown.id} ${round}`} of={shown} />}
    </>
  );
}

function Standing({ of: { status, disabledReason } }: { of: WebhookEndpoint }) {
  return (
    <span>
      <Status of={status} /> {disabledReason === "gone" && "it answered 410 Gone"}
      {disabledReason === "operator" && "the operator disabled it"}
    </span>
  );
}

function Types({ of }: { of: readonly string[] | null }) {
  if (of === null) return <span>all events</span>;
  return <span title={of.join(", ")}>{of.length === 1 ? of[0] : plural(of.length, "type")}</span>;
}

function Secret({ value, note }: { value: string; note: string }) {
  return (
    <p class="secret">
      Secret, shown this once: <code>{value}</code> <Copy value={value} what="the secret" />{" "}
      <span class="note">{note}</span>
    </p>
  );
}
