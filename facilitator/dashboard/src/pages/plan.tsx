/** Shows one plan: its terms, its text, and what it brought. */
import { escapedText, formatCount, formatPeriod, formatTime, planName } from "../format";
import { LabelForm, useLabels } from "../labels";
import { ActLink, OnChain, Whole } from "../links";
import { Controls, Empty, Figure, Figures, Label, Panel, Shown, Status } from "../parts";
import { type Plan, useAllPlans } from "../plan-names";
import { useRange } from "../range";
import { SCHEME_NAMES, type SchemeName } from "../schemes";
import { useHeading, useMoney } from "../use";
import { stateOf } from "./plans";
import { Rows } from "./story";

export function PlanPage({ planId }: { planId: string }) {
  const { query, choices } = useRange();
  const plans = useAllPlans({ days: query.days });
  return (
    <>
      <Controls>{choices}</Controls>
      <Shown of={plans}>
        {(known) => {
          const plan = known.find((each) => each.planId === planId);
          return plan ? <Terms of={plan} /> : <Empty title="None of your plans has this id." />;
        }}
      </Shown>
    </>
  );
}

function Terms({ of }: { of: Plan }) {
  const money = useMoney();
  const label = useLabels().find(of.planId);
  const amount = (value: string): string => money(value, of.token);
  const about = { plan: of.planId };
  useHeading(`${planName(of.metadata, of.planId)}, ${amount(of.price)} every ${formatPeriod(of.period)}`);
  return (
    <>
      <Figures>
        <Figure label="Active" value={formatCount(of.active)} note={`${amount(of.recurring)} every 30 days`} />
        <Figure label="Revenue" value={amount(of.amount)} note="in the range" />
        <Figure label="Net" value={amount(of.net)} note={`${amount(of.refunds.amount)} refunded`} />
      </Figures>
      {!of.stopped && (
        <p class="buttons">
          {!of.deprecated && (
            <ActLink act="deprecate-plan" about={about}>
              Deprecate this plan
            </ActLink>
          )}
          <ActLink act="stop-plan" about={about}>
            Stop this plan
          </ActLink>
          <ActLink act="change-payee" about={about}>
            Change its payee
          </ActLink>
          <ActLink act="voucher" about={about}>
            Make a voucher
          </ActLink>
        </p>
      )}
      <Panel title="Terms" aside={<LabelForm of={of.planId} />}>
        <Rows
          of={{
            Label: label && <Label of={of.planId} />,
            State: <Status of={stateOf(of)} />,
            Price: `${amount(of.price)} every ${formatPeriod(of.period)}`,
            Plan: <Whole value={of.planId} what="the plan's id" />,
            "Paid to": <OnChain of="address" value={of.payTo} />,
            "Proposed payee": of.proposedPayTo && (
              <>
                <OnChain of="address" value={of.proposedPayTo.payTo} /> from {formatTime(of.proposedPayTo.effectiveAt)}{" "}
                on
              </>
            ),
            Subscriptions: <a href={`#/subscriptions?plan=${of.planId}`}>all of this plan</a>,
            Movements: <a href={`#/account?plan=${of.planId}`}>all of this plan</a>,
            ...Object.fromEntries(
              Object.entries(of.byScheme).map(([scheme, sum]) => [
                SCHEME_NAMES[scheme as SchemeName],
                `${amount(sum?.amount ?? "0")} (${formatCount(sum?.count ?? 0)})`,
              ]),
            ),
          }}
        />
      </Panel>
      <Panel title="Metadata" note="As the contract has it.">
        <pre>
          <bdi>{of.metadata ? escapedText(of.metadata) : "none"}</bdi>
        </pre>
      </Panel>
    </>
  );
}
