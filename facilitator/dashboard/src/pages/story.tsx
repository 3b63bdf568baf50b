/** What the pages of a payment and of a charge have in common. */
import type { ComponentChildren } from "preact";
import type { PaymentStoryWire } from "turnpike/facilitator";
import { formatMoment } from "../format";
import { OnChain, Whole } from "../links";
import { Empty, Hex, Panel, Status, Table } from "../parts";
import { useMoney } from "../use";

type Story = Pick<PaymentStoryWire, "id" | "token" | "amount" | "refunded" | "refunds" | "deliveries" | "transaction"> &
  Pick<PaymentStoryWire, "blockNumber">;

/** Names and values of one record; a value that is absent takes no line. */
export function Rows({ of }: { of: Readonly<Record<string, ComponentChildren>> }) {
  const given = Object.entries(of).filter(([, value]) => value !== undefined && value !== "" && value !== false);
  return (
    <dl class="rows">
      {given.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** What was paid, and what is left of it. */
export function Kept({ of: { amount, refunded, token } }: { of: Story }) {
  const money = useMoney();
  if (refunded === "0") return <>{money(amount, token)}</>;
  const kept = (BigInt(amount) - BigInt(refunded)).toString();
  return (
    <>
      {money(amount, token)}, <Status of={kept === "0" ? "refunded" : "partly refunded"} />{" "}
      {kept === "0" ? "all of it" : `${money(refunded, token)} refunded, ${money(kept, token)} kept`}
    </>
  );
}

export function Chain({ of: { transaction, blockNumber } }: { of: Story }) {
  return (
    <Rows
      of={{
        Transaction: transaction && (
          <Whole value={transaction} what="the transaction">
            <OnChain of="tx" value={transaction} />
          </Whole>
        ),
        Block: blockNumber !== undefined && <OnChain of="block" value={String(blockNumber)} />,
      }}
    />
  );
}

export function Refunds({ of: { refunds, token } }: { of: Story }) {
  const money = useMoney();
  return (
    <Panel title="Refunds" note="Each is a transfer back to the payer.">
      <Table
        caption="Refunds"
        empty={<Empty title="Nothing was refunded." />}
        rows={refunds}
        columns={[
          {
            title: "Accepted",
            cell: (row) => (
              <>
                {formatMoment(row.acceptedAt)}
                {row.settledAt !== undefined && <span class="note line">settled {formatMoment(row.settledAt)}</span>}
              </>
            ),
          },
          {
            title: "Status",
            cell: (row) => (
              <>
                <Status of={row.status} />
                {row.reason && <span class="note line">{row.reason}</span>}
              </>
            ),
          },
          { title: "Amount", isNumber: true, cell: (row) => money(row.amount, token) },
          { title: "From", isMinor: true, cell: (row) => <OnChain of="address" value={row.account} short /> },
          {
            title: "Transaction",
            isMinor: true,
            cell: (row) => (row.transaction ? <OnChain of="tx" value={row.transaction} short /> : "–"),
          },
        ]}
      />
    </Panel>
  );
}

export function Sent({ of: { deliveries } }: { of: Story }) {
  if (!deliveries) return null;
  return (
    <Panel title="Webhooks" note="Deliveries of its events, oldest first.">
      <Table
        caption="Webhooks"
        empty={<Empty title="No webhook was sent about it." />}
        rows={deliveries}
        columns={[
          {
            title: "Event",
            cell: (row) => (
              <>
                <a href={`#/deliveries/${row.endpoint}/${row.eventId}`}>{row.type}</a>
                <span class="note line">{formatMoment(row.createdAt)}</span>
              </>
            ),
          },
          { title: "State", cell: (row) => <Status of={row.state} /> },
          { title: "Attempts", isNumber: true, isMinor: true, cell: (row) => String(row.attempts) },
          { title: "To", isMinor: true, cell: (row) => <span class="cut">{row.url}</span> },
          { title: "Id", isSpare: true, cell: (row) => <Hex value={row.eventId} /> },
        ]}
      />
    </Panel>
  );
}

export interface Moment {
  readonly at: number;
  readonly what: string;
  readonly tone?: "good" | "waiting" | "bad";
  readonly note?: ComponentChildren;
}

export function Timeline({ of }: { of: readonly Moment[] }) {
  return (
    <Panel title="Timeline" note="Oldest first, to the second.">
      <ol class="timeline">
        {of.map(({ at, what, tone = "good", note }) => (
          <li key={`${at} ${what}`} class={tone}>
            <time dateTime={new Date(at * 1_000).toISOString()}>{formatMoment(at)}</time>
            <strong>{what}</strong>
            {note && <span class="note"> · {note}</span>}
          </li>
        ))}
      </ol>
    </Panel>
  );
}
