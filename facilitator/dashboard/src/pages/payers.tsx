/** Who paid, ordered by the API. */
import { formatCount, formatShare, plural } from "../format";
import { Bar, Controls, Download, Empty, Narrow, orderedBy, Pager, Panel, PayerLink, Shown, Table } from "../parts";
import { useToken } from "../range";
import { useGet, useMoney, useQueryField, useTrail } from "../use";

const NOBODY = <Empty title="Nobody paid yet." />;

export function Payers() {
  const money = useMoney("short");
  const { token: chosen, choice } = useToken();
  const [sort, setSort] = useQueryField("sort", "paid");
  const query = { token: chosen, ...orderedBy(sort) };
  const trail = useTrail(JSON.stringify(query));
  const figures = useGet("/analytics/payers", { ...query, cursor: trail.cursor, limit: 50 });
  return (
    <>
      <Controls>
        {choice}
        <Download path="/analytics/payers.csv" query={{ token: chosen }} name="turnpike-payers.csv" />
      </Controls>
      <Panel note="All payers of all time, and the share of each in the total of all.">
        <Shown of={figures}>
          {({ payers, token, total, next }) => (
            <>
              <Table
                caption="Payers"
                empty={NOBODY}
                rows={payers}
                id={({ payer }) => payer}
                sort={sort}
                onSort={setSort}
                columns={[
                  {
                    title: "Payer",
                    cell: (row) => (
                      <>
                        <PayerLink of={row.payer} />
                        <Narrow>{plural(row.count, "payment")}</Narrow>
                        {row.refunds.count > 0 && <Narrow>{money(row.net, token)} net of refunds</Narrow>}
                      </>
                    ),
                    total: "All payers",
                  },
                  {
                    title: "Paid",
                    sort: ["paid", "-paid"],
                    isNumber: true,
                    cell: (row) => money(row.amount, token),
                    total: total && money(total.amount, token),
                  },
                  {
                    title: "Refunds",
                    sort: ["refunds", "-refunds"],
                    isNumber: true,
                    isMinor: true,
                    cell: (row) => money(row.refunds.amount, token),
                    total: total && money(total.refunds.amount, token),
                  },
                  {
                    title: "Net",
                    sort: ["net", "-net"],
                    isNumber: true,
                    isMinor: true,
                    cell: (row) => money(row.net, token),
                    total: total && money(total.net, token),
                  },
                  {
                    title: "Share",
                    cell: (row) => (
                      <span class="meter">
                        <Bar share={Number(row.amount) / (Number(total?.amount) || 1)} />
                        {formatShare(Number(row.amount), Number(total?.amount ?? 0)) ?? "–"}
                      </span>
                    ),
                  },
                  {
                    title: "Payments",
                    sort: ["payments", "-payments"],
                    isNumber: true,
                    isMinor: true,
                    cell: (row) => formatCount(row.count),
                    total: total && formatCount(total.count),
                  },
                ]}
              />
              <Pager trail={trail} next={next} names={["← Back", "More →"]} />
            </>
          )}
        </Shown>
      </Panel>
    </>
  );
}

/** The first few, for the overview. */
export function TopPayers({ limit }: { limit: number }) {
  const money = useMoney("short");
  const figures = useGet("/analytics/payers", { token: useToken().token, limit });
  return (
    <Panel title="Top payers" note="All time." aside={<a href="#/payers">All payers</a>}>
      <Shown of={figures}>
        {({ payers, token }) =>
          payers.length === 0 ? (
            NOBODY
          ) : (
            <ol class="ranks">
              {payers.map(({ payer, amount, count }) => (
                <li key={payer}>
                  <PayerLink of={payer} />
                  <Bar share={Number(amount) / Number(payers[0]?.amount ?? 1)} />
                  <span class="number" title={plural(count, "payment")}>
                    {money(amount, token)}
                  </span>
                </li>
              ))}
            </ol>
          )
        }
      </Shown>
    </Panel>
  );
}
