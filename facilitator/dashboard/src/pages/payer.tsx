import { formatTime, plural, shorten } from "../format";
import { LabelForm } from "../labels";
import {
  Controls,
  Download,
  Empty,
  Figure,
  Figures,
  Hex,
  Label,
  Narrow,
  Pager,
  Panel,
  Shown,
  SubscriptionLink,
  Table,
} from "../parts";
import { useToken } from "../range";
import { SCHEME_NAMES } from "../schemes";
import { useGet, useHeading, useMoney, useTrail } from "../use";
import { PaymentTable } from "./payments";

export function PayerPage({ payer }: { payer: string }) {
  const money = useMoney();
  useHeading(`Payer ${shorten(payer)}`);
  const { token, choice } = useToken();
  const figures = useGet("/analytics/payers", { token, payer, limit: 1 });
  return (
    <>
      <Controls>
        {choice}
        <p class="facts">
          <span>
            payer <Hex value={payer} /> <Label of={payer} />
          </span>
        </p>
        <LabelForm of={payer} />
      </Controls>
      <Shown of={figures}>
        {({ payers: [found], token: counted }) => (
          <Figures>
            <Figure
              label="Total paid"
              value={money(found?.amount ?? "0", counted)}
              note={`${plural(found?.count ?? 0, "payment")}, one-time and subscriptions`}
            />
            {found && found.refunds.count > 0 && (
              <Figure
                label="Net of refunds"
                value={money(found.net, counted)}
                note={`${money(found.refunds.amount, counted)} refunded`}
              />
            )}
          </Figures>
        )}
      </Shown>
      <Charges payer={payer} token={token} />
      <Once payer={payer} />
    </>
  );
}

function Charges({ payer, token }: { payer: string; token: string | undefined }) {
  const money = useMoney();
  const trail = useTrail(`${payer} ${token}`);
  const filter = { payer, token };
  const list = useGet("/analytics/charges", { ...filter, cursor: trail.cursor, limit: 50 });
  return (
    <Panel
      title="Subscription charges"
      note="Periods and use beyond them, newest first."
      aside={
        <Download
          path="/analytics/ledger.csv"
          query={filter}
          name="turnpike-ledger.csv"
          title="Save all movements as CSV"
        />
      }
    >
      <Shown of={list}>
        {({ charges, next }) => (
          <>
            <Table
              caption="Charges to its subscriptions, newest first"
              empty={<Empty title="No subscription of this payer was charged." />}
              rows={charges}
              columns={[
                {
                  title: "Charged",
                  cell: (row) => (
                    <>
                      {row.id ? <a href={`#/charges/${row.id}`}>{formatTime(row.at)}</a> : formatTime(row.at)}
                      <Narrow>{SCHEME_NAMES[row.scheme]}</Narrow>
                      <Narrow>
                        <SubscriptionLink of={row.subject} />
                      </Narrow>
                    </>
                  ),
                },
                { title: "For", isMinor: true, cell: (row) => SCHEME_NAMES[row.scheme] },
                {
                  title: "Amount",
                  isNumber: true,
                  cell: (row) => (
                    <>
                      {money(row.amount, row.token)}
                      {row.refunded && <span class="note line">{money(row.refunded, row.token)} refunded</span>}
                    </>
                  ),
                },
                { title: "Subscription", isMinor: true, cell: (row) => <SubscriptionLink of={row.subject} /> },
                {
                  title: "Transaction",
                  isSpare: true,
                  cell: (row) => (row.transaction ? <Hex value={row.transaction} /> : "–"),
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

function Once({ payer }: { payer: string }) {
  const trail = useTrail(payer);
  const list = useGet("/analytics/payments", { payer, cursor: trail.cursor, limit: 50 });
  const name = "turnpike-payments.csv";
  return (
    <Panel
      title="One-time payments"
      note="Newest first."
      aside={<Download path="/analytics/payments.csv" query={{ payer }} name={name} title="Save payments as CSV" />}
    >
      <Shown of={list}>
        {({ payments, next }) => (
          <>
            <PaymentTable payments={payments} empty={<Empty title="No one-time payment by this payer." />} />
            <Pager trail={trail} next={next} />
          </>
        )}
      </Shown>
    </Panel>
  );
}
