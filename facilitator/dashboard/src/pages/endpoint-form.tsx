/** The form of a webhook endpoint, new or existing. */
import { useEffect, useRef, useState } from "preact/hooks";
import type { WebhookEndpoint } from "turnpike/facilitator";

export interface EndpointFields {
  readonly url: string;
  readonly description: string;
  /** null: every type, including those of later versions */
  readonly types: readonly string[] | null;
}

export interface EndpointFormProps {
  /** absent: a new one */
  readonly endpoint?: WebhookEndpoint;
  onSave(fields: EndpointFields): Promise<void>;
  onCancel(): void;
}

/** Grouped by object, as the service names them. */
const TYPES: Readonly<Record<string, readonly string[]>> = {
  payment: ["settled", "failed", "reversed", "restored"],
  refund: ["settled", "failed", "reversed", "restored"],
  subscription: [
    "created",
    "renewed",
    "renewal_at_risk",
    "renewal_failed",
    "past_due",
    "paused",
    "resumed",
    "plan_changed",
    "next_set",
    "rekeyed",
    "cancelled",
    "expired",
  ],
  allowance: ["debited", "threshold_reached", "exhausted", "cap_changed"],
  plan: ["created", "deprecated", "stopped", "payee_proposed", "payee_changed", "transferred"],
  digest: ["daily"],
};

export function EndpointForm({ endpoint, onSave, onCancel }: EndpointFormProps) {
  const [types, setTypes] = useState<readonly string[] | null>(endpoint?.types ?? null);
  const [isBusy, setBusy] = useState(false);
  const address = useRef<HTMLInputElement>(null);
  useEffect(() => address.current?.focus(), []);
  return (
    <form
      class="fields"
      aria-label={endpoint ? "Change the endpoint" : "New endpoint"}
      onSubmit={(event) => {
        event.preventDefault();
        const form = new FormData(event.currentTarget);
        setBusy(true);
        const fields = { url: String(form.get("url")), description: String(form.get("description")), types };
        void onSave(fields).finally(() => setBusy(false));
      }}
    >
      <label>
        Address
        <input
          type="url"
          name="url"
          ref={address}
          required
          placeholder="https://example.com/turnpike"
          defaultValue={endpoint?.url ?? ""}
        />
      </label>
      <label>
        Description
        <input name="description" maxLength={256} placeholder="billing" defaultValue={endpoint?.description ?? ""} />
      </label>
      <fieldset>
        <legend>Events</legend>
        <label class="check">
          <input type="radio" name="which" checked={types === null} onChange={() => setTypes(null)} /> All but the
          digest, also those of later versions
        </label>
        <label class="check">
          <input
            type="radio"
            name="which"
            checked={types !== null}
            onChange={() => setTypes(types ?? ["payment.settled"])}
          />{" "}
          Only these
        </label>
        {types !== null && (
          <div class="checks">
            {Object.entries(TYPES).flatMap(([about, names]) =>
              names.map((name) => {
                const type = `${about}.${name}`;
                return (
                  <label key={type} class="check">
                    <input
                      type="checkbox"
                      checked={types.includes(type)}
                      onChange={({ currentTarget }) =>
                        setTypes(currentTarget.checked ? [...types, type] : types.filter((one) => one !== type))
                      }
                    />{" "}
                    {type}
                  </label>
                );
              }),
            )}
          </div>
        )}
      </fieldset>
      <p class="buttons">
        <button type="submit" class="main" disabled={isBusy || types?.length === 0}>
          {endpoint ? "Save" : "Add"}
        </button>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      </p>
    </form>
  );
}
