/** Shows all of one charge or debit of a subscription. */
import { formatMoment, shorten } from "../format";
import { Whole } from "../links";
import { Panel, PayerLink, PlanLink, Shown, Status, SubscriptionLink } from "../parts";
import { usePlanNames } from "../plan-names";
import { SCHEME_NAMES } from "../schemes";
import { useGet, useHeading, useNamedMoney, useSigned } from "../use";
import { Refund } from "./refund";
import { Chain, Kept, Refunds, Rows, Sent } from "./story";

export function ChargePage({ id }: { id: string }) {
  const { api } = useSigned();
  const plans = usePlanNames();
  const money = useNamedMoney();
  const story = useGet(`/analytics/charges/${id}`);
  const { data } = story;
  useHeading(data && `${SCHEME_NAMES[data.scheme]} of ${money(data.amount, data.token)} by ${shorten(data.payer)}`);
  return (
    <Shown of={story}>
      {(charge) => (
        <>
          <Panel title="Charge">
            <Rows
              of={{
                Status: <Status of={charge.reverted ? "reversed" : "settled"} />,
                Amount: <Kept of={charge} />,
                Charged: formatMoment(charge.at),
                Subscription: (
                  <Whole value={charge.idHash} what="the subscription's name">
                    <SubscriptionLink of={charge.idHash} />
                  </Whole>
                ),
                Plan: <PlanLink of={charge.planId} name={plans.nameOf(charge.planId)} />,
                Payer: (
                  <Whole value={charge.payer} what="the payer">
                    <PayerLink of={charge.payer} />
                  </Whole>
                ),
                Event: <Whole value={charge.id} what="the event's id" />,
              }}
            />
            <Chain of={charge} />
          </Panel>
          {!charge.reverted && (
            <Refund
              of={charge}
              what={charge.scheme === "overage" ? "debit" : "charge"}
              target={charge.target}
              load={() => api.get(`/analytics/charges/${id}`)}
            />
          )}
          <Refunds of={charge} />
          <Sent of={charge} />
        </>
      )}
    </Shown>
  );
}
