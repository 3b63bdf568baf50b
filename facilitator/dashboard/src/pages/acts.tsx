/** What a provider's wallet does: plans, customers and API keys. Reading needs a key; each act needs the wallet. */
import { useMemo, useState } from "preact/hooks";
import { ApiProblem } from "../api";
import { shorten } from "../format";
import { Panel, Problem } from "../parts";
import { useHeading, useSigned } from "../use";
import { accountOf, type Wallet } from "../wallet/account";
import { ActsContext } from "../wallet/act-form";
import { ACTS, type ActId, actAt } from "../wallet/act-list";
import { useWallets, WalletButtons } from "../wallet/choice";
import { CustomerActs } from "./acts-customers";
import { KeyActs } from "./acts-keys";
import { PlanActs } from "./acts-plans";

/** @param act absent: the list of all */
export function Acts({ act = "" }: { act?: string }) {
  const { who, supported } = useSigned();
  const wallets = useWallets();
  const [chosen, setChosen] = useState<Wallet>();
  const [round, setRound] = useState(0);
  const wallet = chosen ?? (wallets.length === 1 ? wallets[0] : undefined);
  const { chainId, network } = supported;
  const account = useMemo(
    () => wallet && accountOf(wallet, who.provider, { chainId, network }),
    [wallet, who.provider, chainId, network],
  );
  const known = Object.hasOwn(ACTS, act) ? ACTS[act as ActId] : undefined;
  useHeading(known?.title);
  if (act === "") return <Index />;
  if (!known) return <Problem of={new ApiProblem(404, "NoSuchAct", "There is no such act.")} />;
  return (
    <ActsContext.Provider value={{ act: act as ActId, account, onActed: () => setRound((now) => now + 1) }}>
      <p class="note">
        The act is shown in words, then made by the wallet of {shorten(who.provider)}. This tab's key does not make it.
      </p>
      {!wallet &&
        (wallets.length === 0 ? (
          <p class="note">No wallet was found in this browser: copy a call, and send it by yours.</p>
        ) : (
          <WalletButtons wallets={wallets} label="Act with" isBusy={false} isMain={false} onChoose={setChosen} />
        ))}
      {known.group === "Plans" && <PlanActs />}
      {known.group === "Customers" && <CustomerActs round={round} />}
      {known.group === "Keys" && <KeyActs wallet={wallet} />}
    </ActsContext.Provider>
  );
}

function Index() {
  return (
    <>
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
