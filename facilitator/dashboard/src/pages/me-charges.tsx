/** What the payer was charged: by provider and day, each payment, each charge, and as files to keep. */
import { useState } from "preact/hooks";
import type { ChargedListWire, PaidListWire, Scheme } from "turnpike/facilitator";
import type { Api } from "../api";
import { formatDate, formatTime, planName, plural } from "../format";
import { Controls, Cut, Download, Hex, Narrow, Pager, Panel, Shown, Table } from "../parts";
import { plansOf } from "../plan-names";
import { SCHEME_NAMES } from "../schemes";
import { useGet, useLoad, useMoney, useSigned, useTrail } from "../use";
import { on } from "./me-approvals";

const PAGE = 25;

/** Receipts in one file; older ones follow by the HTTP API. */
const MAX_SAVED = 20_000;

export function Spend() {
  const money = useMoney();
  const { supported } = useSigned();
  const spend = useGet("/payer/spend");
  return (
    <Panel title="Spent in 30 days" note="By provider and day (UTC). Refunds are not subtracted.">
      <Controls>
        <Download path="/payer/spend.csv" query={{}} name="turnpike-spend.csv" />
      </Controls>
      <Shown of={spend}>
        {({ days, token }) => (
          <Table
            caption={`Spent by provider and day${on(supported)}`}
            empty="Nothing was charged in 30 days."
            rows={days}
            columns={[
              { title: "Day", cell: ({ at }) => formatDate(at) },
              { title: "Provider", cell: ({ provider }) => <Hex value={provider} /> },
              { title: "Charges", isNumber: true, isMinor: true, cell: ({ count }) => count },
              { title: "Amount", isNumber: true, cell: ({ amount }) => money(amount, token) },
            ]}
          />
        )}
      </Shown>
    </Panel>
  );
}

export function Charges() {
  const charged = useTrail("charged");
  const paid = useTrail("paid");
  const { api, tick, signOut } = useSigned();
  const charges = useLoad({
    name: `charges ${charged.cursor}`,
    load: () => chargesOf(api, charged.cursor),
    again: String(tick),
    signOut,
  });
  const payments = useGet("/payer/payments", { cursor: paid.cursor, limit: PAGE });
  return (
    <>
      <Panel title="Charges of subscriptions" note="Newest first; times are the chain's.">
        <Controls>
          <Download path="/payer/charges.csv" query={{}} name="turnpike-charges.csv" />
          <SaveJson name="turnpike-charges.json" load={allCharges} />
        </Controls>
        <Shown of={charges}>
          {(page) => (
            <>
              <Receipts caption="Charges of subscriptions" rows={page.charges} what={whatOf} />
              <Pager trail={charged} next={page.next} />
            </>
          )}
        </Shown>
      </Panel>
      <Panel title="One-time payments" note="Newest first. What was bought is the service's record.">
        <Controls>
          <Download path="/payer/payments.csv" query={{}} name="turnpike-payments.csv" />
          <SaveJson name="turnpike-payments.json" load={allPayments} />
        </Controls>
        <Shown of={payments}>
          {(page) => (
            <>
              <Receipts
                caption="One-time payments"
                rows={page.payments}
                what={({ resource }) => <Cut text={resource} />}
              />
              <Pager trail={paid} next={page.next} />
            </>
          )}
        </Shown>
      </Panel>
    </>
  );
}

/** A page of charges with the names of their plans. */
async function chargesOf(api: Api, cursor: string | undefined) {
  const { charges, next } = await api.get("/payer/charges", { cursor, limit: PAGE });
  const plans = await plansOf(
    api,
    charges.map(({ planId }) => planId),
  );
  return {
    charges: charges.map((each) => ({ ...each, plan: planName(plans.get(each.planId)?.metadata ?? "", each.planId) })),
    next,
  };
}

const whatOf = ({ plan, scheme }: { readonly plan: string; readonly scheme: Scheme }) => (
  <>
    <bdi>{plan}</bdi>
    <span class="note line">{SCHEME_NAMES[scheme]}</span>
  </>
);

type Receipt = PaidListWire["payments"][number] | ChargedListWire["charges"][number];

function Receipts<R extends Receipt>({
  caption,
  rows,
  what,
}: {
  caption: string;
  rows: readonly R[];
  what: (row: R) => preact.ComponentChildren;
}) {
  const money = useMoney();
  return (
    <Table
      caption={caption + on(useSigned().supported)}
      empty="None yet."
      rows={rows}
      columns={[
        { title: "When", cell: ({ at }) => formatTime(at) },
        {
          title: "For",
          isProse: true,
          cell: (row) => (
            <>
              {what(row)}
              <Narrow>
                <Hex value={row.provider} />
              </Narrow>
            </>
          ),
        },
        { title: "Provider", isMinor: true, cell: ({ provider }) => <Hex value={provider} /> },
        {
          title: "Amount",
          isNumber: true,
          cell: ({ amount, token, refunded }) => (
            <>
              {money(amount, token)}
              {refunded && <span class="note line">{money(refunded, token)} refunded</span>}
            </>
          ),
        },
        { title: "Transaction", isSpare: true, cell: ({ transaction }) => transaction && <Hex value={transaction} /> },
      ]}
    />
  );
}

async function everyPage<R>(
  read: (cursor: string | undefined) => Promise<{ rows: readonly R[]; next?: string | undefined }>,
) {
  const all: R[] = [];
  for (let cursor: string | undefined; ; ) {
    const { rows, next } = await read(cursor);
    all.push(...rows);
    if (next === undefined || all.length >= MAX_SAVED) return { rows: all, isWhole: next === undefined };
    cursor = next;
  }
}

const allCharges = (api: Api) =>
  everyPage(async (cursor) => {
    const { charges: rows, next } = await api.get("/payer/charges", { cursor, limit: 200 });
    return { rows, next };
  });

const allPayments = (api: Api) =>
  everyPage(async (cursor) => {
    const { payments: rows, next } = await api.get("/payer/payments", { cursor, limit: 200 });
    return { rows, next };
  });

function SaveJson({
  name,
  load,
}: {
  name: string;
  load: (api: Api) => Promise<{ rows: readonly unknown[]; isWhole: boolean }>;
}) {
  const { api, supported, who } = useSigned();
  const [note, setNote] = useState<string>();
  async function save(): Promise<void> {
    const { rows, isWhole } = await load(api);
    const { network, chainId } = supported;
    const text = JSON.stringify({ payer: who.provider, network, chainId, isWhole, receipts: rows }, null, 2);
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1_000);
    setNote(isWhole ? undefined : `Saved the newest ${plural(rows.length, "receipt")}; the CSV has all.`);
  }
  return (
    <>
      <button type="button" class="quiet" onClick={() => save().catch((error: Error) => setNote(error.message))}>
        Save JSON
      </button>
      {note && <span role="alert">{note}</span>}
    </>
  );
}
