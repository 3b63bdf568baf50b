/** What a provider's wallet does: plans, customers and API keys. Reading needs a key; each act needs the wallet. */
import { ApiProblem } from "../api";
import { shorten } from "../format";
import { Panel, Problem } from "../parts";
import { useHeading, useSigned } from "../use";
import { WithWallet } from "../wallet/act-form";
import { ACTS, type ActId, actAt } from "../wallet/act-list";
import { CustomerActs } from "./acts-customers";
import { KeyActs } from "./acts-keys";
import { PlanActs } from "./acts-plans";

/** @param act absent: the list of all */
export function Acts({ act = "" }: { act?: string }) {
  const { who } = useSigned();
  const known = Object.hasOwn(ACTS, act) ? ACTS[act as ActId] : undefined;
  useHeading(known?.title);
  if (act === "") return <Index />;
  if (!known) return <Problem of={new ApiProblem(404, "NoSuchAct", "There is no such action.")} />;
  return (
    <>
      <p class="note">
        The action is shown in words, then made by the wallet of {shorten(who.provider)}. This tab's key does not make
        it.
      </p>
      <WithWallet act={act as ActId} without="No wallet was found in this browser: copy a call, and send it by yours.">
        {({ wallet, round }) => (
          <>
            {known.group === "Plans" && <PlanActs />}
            {known.group === "Customers" && <CustomerActs round={round} />}
            {known.group === "Keys" && <KeyActs act={act as ActId} wallet={wallet} />}
          </>
        )}
      </WithWallet>
    </>
  );
}

function Index() {
  return (
    <>
      <p class="note">
        To refund, open a <a href="#/payments">payment</a> or a <a href="#/account">charge</a>.
      </p>
      {["Plans", "Customers", "Keys"].map((group) => (
        <Panel key={group} title={group}>
          <ul class="matters">
            {(Object.keys(ACTS) as ActId[]).map(
              (id) =>
                ACTS[id].group === group && (
                  <li key={id}>
                    <a href={actAt(id)}>{ACTS[id].title}</a>
                    <span class="note line">{ACTS[id].about}</span>
                  </li>
                ),
            )}
          </ul>
        </Panel>
      ))}
    </>
  );
}
