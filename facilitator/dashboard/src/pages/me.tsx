/** The payer's portal: subscriptions, approvals and charges of one address, and what it can stop. */
import { useMemo, useState } from "preact/hooks";
import type { SupportedWire } from "turnpike/facilitator";
import { type AnswerAt, createApi } from "../api";
import { planName, shorten } from "../format";
import { Alert, Empty, Pager, Panel, Shown } from "../parts";
import { plansOf } from "../plan-names";
import { type Signed, SignedIn, type SignOut, useLoad, useMoney, useRound, useSigned, useTrail } from "../use";
import { type Account, accountOf, type Wallet } from "../wallet/account";
import { Ask, type Wanted } from "../wallet/ask";
import { WalletButtons } from "../wallet/choice";
import type { ActContext, Mine } from "./me-acts";
import { Approvals, isGiven } from "./me-approval-list";
import { approvalsOf, on, stopAct } from "./me-approvals";
import { Charges, Spend } from "./me-charges";
import { Subscription } from "./me-subscription";

const POLL_MS = 15_000;

interface PortalProps {
  readonly apiKey: string;
  readonly who: AnswerAt<"GET", "/keys/current">;
  /** each with its own subscriptions, approvals and charges */
  readonly chains: readonly SupportedWire[];
  readonly wallets: readonly Wallet[];
  readonly onSignOut: SignOut;
}

export function Portal({ who, chains, wallets, onSignOut, apiKey }: PortalProps) {
  const [chosen, setChosen] = useState<Wallet>();
  const wallet = chosen ?? (wallets.length === 1 ? wallets[0] : undefined);
  return (
    <main id="main" class="me">
      <header class="me-top">
        <p class="brand">Turnpike</p>
        <span title={who.provider}>{shorten(who.provider)}</span>
        <button type="button" class="quiet" onClick={() => onSignOut()}>
          Sign out
        </button>
      </header>
      <h1>What I pay</h1>
      {wallet === undefined &&
        (wallets.length === 0 ? (
          <p class="note">This page only reads: no wallet was found in this browser.</p>
        ) : (
          <WalletButtons wallets={wallets} label="Act with" isBusy={false} isMain={false} onChoose={setChosen} />
        ))}
      {chains.map((supported) => (
        <OneChain
          key={supported.network}
          {...{ apiKey, who, supported, wallet }}
          isAlone={chains.length === 1}
          signOut={onSignOut}
        />
      ))}
    </main>
  );
}

interface OneChainProps extends Pick<Signed, "who" | "supported" | "signOut"> {
  readonly apiKey: string;
  readonly wallet: Wallet | undefined;
  readonly isAlone: boolean;
}

function OneChain({ apiKey, who, supported, wallet, isAlone, signOut }: OneChainProps) {
  const { network, chainId } = supported;
  const api = useMemo(() => createApi(apiKey, isAlone ? undefined : network), [apiKey, network, isAlone]);
  const [acts, setActs] = useState(0);
  const tick = useRound(POLL_MS) + acts;
  const account = useMemo(() => wallet && accountOf(wallet, who.provider, supported), [wallet, who.provider, chainId]);
  return (
    <SignedIn.Provider value={{ api, tick, who, supported, signOut }}>
      <section aria-label={network}>
        {!isAlone && <h2>On {network}</h2>}
        <Standing account={account} onActed={() => setActs((count) => count + 1)} />
        <Spend />
        <Charges />
      </section>
    </SignedIn.Provider>
  );
}

/** What can be charged, and the acts that end it. */
function Standing({ account, onActed }: { account: Account | undefined; onActed: () => void }) {
  const { api, tick, who, supported, signOut } = useSigned();
  const money = useMoney();
  const [wanted, setWanted] = useState<Wanted>();
  const [problem, setProblem] = useState<string>();
  const at: ActContext | undefined = account && { api, account, supported, money };
  const trail = useTrail("mine");
  const again = String(tick);
  const mine = useLoad({
    name: `subscriptions of ${who.provider} ${trail.cursor}`,
    load: () => subscriptionsOf(api, who.provider, trail.cursor),
    again,
    signOut,
  });
  const approvals = useLoad({
    name: `approvals of ${who.provider}`,
    load: () => approvalsOf({ api, supported }, who.provider),
    again,
    signOut,
  });
  async function stop(): Promise<void> {
    if (!at) return;
    setProblem(undefined);
    try {
      const given = (await approvalsOf({ api, supported }, who.provider)).filter(isGiven);
      const live: Mine[] = [];
      for (
        let page = await subscriptionsOf(api, who.provider);
        ;
        page = await subscriptionsOf(api, who.provider, page.next)
      ) {
        live.push(...page.all.filter(({ subscription }) => subscription.status !== "CANCELLED"));
        if (page.next === undefined) break;
      }
      setWanted(stopAct(at, { live, given }));
    } catch (error) {
      setProblem((error as Error).message);
    }
  }
  function close(isChanged: boolean): void {
    setWanted(undefined);
    if (isChanged) onActed();
  }
  return (
    <>
      {at && (
        <p>
          <button type="button" class="danger" onClick={() => void stop()}>
            Stop everything{on(supported)}…
          </button>
        </p>
      )}
      <Alert text={problem} />
      <Panel title="Subscriptions">
        <Shown of={mine}>
          {({ all, next }) => (
            <>
              {all.length === 0 && <Empty title="No subscription of this address here." />}
              {all.map((each) => (
                <Subscription key={each.subscription.idHash} of={each} at={at} onWanted={setWanted} />
              ))}
              <Pager trail={trail} next={next} />
            </>
          )}
        </Shown>
      </Panel>
      <Panel title="Token approvals" note="Who may take your tokens, up to how much. Without one nothing is charged.">
        <Shown of={approvals}>{(list) => <Approvals of={list} at={at} onWanted={setWanted} />}</Shown>
      </Panel>
      {wanted && <Ask wanted={wanted} onClose={close} />}
    </>
  );
}

/** Loads a page of an address's subscriptions with their plans. */
async function subscriptionsOf(api: ActContext["api"], address: string, cursor?: string) {
  const { subscriptions, next } = await api.get(`/accounts/${address}/subscriptions`, { cursor });
  const plans = await plansOf(
    api,
    subscriptions.map(({ planId }) => planId),
  );
  const all = subscriptions.flatMap((subscription): Mine[] => {
    const plan = plans.get(subscription.planId);
    return plan ? [{ subscription, plan, name: planName(plan.metadata, plan.planId) }] : [];
  });
  return { all, next };
}
