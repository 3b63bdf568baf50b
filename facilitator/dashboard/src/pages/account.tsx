/** The provider's account: every movement of a month, in one list and as a statement that prints. */
import type { LedgerWire } from "turnpike/facilitator";
import { addAmounts, escapedText, formatCount } from "../format";
import { OnChain } from "../links";
import { Controls, Cut, Download, Empty, Hex, Narrow, Pager, Panel, PayerLink, PlanLink, Shown, Table } from "../parts";
import { type PlanNames, usePlanNames } from "../plan-names";
import { SCHEME_NAMES } from "../schemes";
import { useGet, useMoney, useQueryField, useSigned, useTrail, useUnit } from "../use";
import { type AccountFilter, Filters, monthName, useAccountFilter } from "./account-filter";

type Movement = LedgerWire["movements"][number];

type Totals = LedgerWire["totals"];

const KINDS = { ...SCHEME_NAMES, refund: "Refund" } as const;

const HALF_DAY_SEC = 43_200;

export function Account() {
  const overview = useGet("/analytics/overview", { days: 1 });
  return <Shown of={overview}>{({ since, to }) => <Ledger since={since ?? to - HALF_DAY_SEC} until={to} />}</Shown>;
}

/** @param until end of today, UTC */
function Ledger({ since, until }: { since: number; until: number }) {
  const filter = useAccountFilter(until - HALF_DAY_SEC);
  const [sort, setSort] = useQueryField("sort", "newest");
  const trail = useTrail(`${JSON.stringify(filter.query)} ${sort}`);
  const list = useGet("/analytics/ledger", { ...filter.query, sort, cursor: trail.cursor, limit: 50 });
  const plans = usePlanNames();
  const file = filter.month === "" ? "turnpike-ledger.csv" : `turnpike-ledger-${filter.month}.csv`;
  return (
    <>
      <Controls areMany>
        <Filters of={filter} since={since} until={until} plans={plans} />
      </Controls>
      <Shown of={list}>
        {({ totals, movements, next }) => (
          <>
            <Statement of={totals} filter={filter} />
            <Panel
              title="Movements"
              aside={<Download path="/analytics/ledger.csv" query={filter.query} name={file} />}
              note={`At the time of the block, in ${filter.zone}. A refund is a movement of its own.${sort === "largest" || sort === "smallest" ? " By amount: of one token." : ""}`}
            >
              <Movements of={movements} plans={plans} filter={filter} sort={sort} onSort={setSort} />
              <Pager trail={trail} next={next} names={["← Back", "More →"]} />
            </Panel>
          </>
        )}
      </Shown>
    </>
  );
}

function Statement({ of, filter }: { of: Totals; filter: AccountFilter }) {
  const { who, supported } = useSigned();
  const unit = useUnit();
  const money = useMoney();
  const tokens = [...new Set(of.map(({ token }) => token))];
  const withRefunds = (text: string, gross: string, refunded: string, token: string) => (
    <>
      {text}
      {refunded !== "0" && (
        <Narrow>
          {money(gross, token)} gross, {money(refunded, token)} refunded
        </Narrow>
      )}
    </>
  );
  return (
    <Panel
      title={`Statement: ${filter.month === "" ? "all times" : monthName(filter.month)} (${filter.zone})`}
      aside={
        <button type="button" onClick={() => print()}>
          Print the statement
        </button>
      }
    >
      <p class="facts">
        <span>
          provider <Hex value={who.provider} />
        </span>
        <span>{supported.network}</span>
        {filter.isNarrowed && <span>of the chosen filters alone</span>}
      </p>
      {tokens.length === 0 && <Empty title="No money moved in this time." />}
      {tokens.map((token) => {
        const rows = of.filter((total) => total.token === token);
        const sum = (field: "gross" | "refunded" | "net"): string => addAmounts(rows.map((row) => row[field]));
        return (
          <Table
            key={token}
            caption={`Totals in ${unit(token).name || "dollars"}, token ${token}`}
            empty=""
            rows={rows}
            columns={[
              {
                title: tokens.length > 1 ? `In ${unit(token).name || "$"}` : "Kind",
                cell: (row) => withRefunds(KINDS[row.kind], row.gross, row.refunded, token),
                total: withRefunds("Total", sum("gross"), sum("refunded"), token),
              },
              {
                title: "Count",
                isNumber: true,
                cell: (row) => formatCount(row.count),
                total: formatCount(rows.reduce((all, { count }) => all + count, 0)),
              },
              {
                title: "Gross",
                isNumber: true,
                isMinor: true,
                cell: (row) => money(row.gross, token),
                total: money(sum("gross"), token),
              },
              {
                title: "Refunded",
                isNumber: true,
                isMinor: true,
                cell: (row) => money(row.refunded, token),
                total: money(sum("refunded"), token),
              },
              {
                title: "Net",
                isNumber: true,
                cell: (row) => money(row.net, token),
                total: money(sum("net"), token),
              },
            ]}
          />
        );
      })}
    </Panel>
  );
}

interface MovementsProps {
  readonly of: readonly Movement[];
  readonly plans: PlanNames;
  readonly filter: AccountFilter;
  readonly sort: string;
  readonly onSort: (sort: string) => void;
}

function Movements({ of, plans, filter, sort, onSort }: MovementsProps) {
  const money = useMoney();
  const reason = (row: Movement) =>
    row.planId ? (
      <PlanLink of={row.planId} name={plans.nameOf(row.planId)} />
    ) : row.route ? (
      <Cut text={URL.canParse(row.route) ? new URL(row.route).pathname : row.route} whole={row.route} />
    ) : (
      "–"
    );
  return (
    <Table
      caption="Movements"
      empty={
        <Empty title="No movement in this time.">
          Show <a href="#/account?month=all">all times</a>.
        </Empty>
      }
      rows={of}
      sort={sort}
      onSort={onSort}
      columns={[
        {
          title: "Date",
          sort: ["newest", "oldest"],
          cell: (row) => (
            <>
              <Page of={row} text={filter.timeOf(row.at)} />
              <Narrow>
                {KINDS[row.kind]} {reason(row)}
              </Narrow>
              <Narrow>
                <PayerLink of={row.payer} />
              </Narrow>
            </>
          ),
        },
        { title: "Kind", isMinor: true, cell: (row) => KINDS[row.kind] },
        { title: "Net", isNumber: true, sort: ["largest", "smallest"], cell: (row) => money(row.net, row.token) },
        { title: "Plan or route", isMinor: true, cell: reason },
        { title: "Payer", isMinor: true, cell: (row) => <PayerLink of={row.payer} /> },
        {
          title: "Memo",
          isSpare: true,
          cell: (row) =>
            row.memo === undefined ? (
              "–"
            ) : (
              <bdi>
                <Hex value={escapedText(row.memo)} />
              </bdi>
            ),
        },
        {
          title: "Transaction",
          isSpare: true,
          cell: (row) => (row.transaction ? <OnChain of="tx" value={row.transaction} short /> : "–"),
        },
      ]}
    />
  );
}

function Page({ of: { kind, id, subject, planId }, text }: { of: Movement; text: string }) {
  if (kind === "one-time") return <a href={`#/payments/${id}`}>{text}</a>;
  if (kind !== "refund") return <a href={`#/charges/${id}`}>{text}</a>;
  return planId === undefined && subject ? <a href={`#/payments/${subject}`}>{text}</a> : <span>{text}</span>;
}
