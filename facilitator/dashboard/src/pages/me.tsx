/** The payer's portal: subscriptions, approvals and charges of one address, and what it can stop. */
import { useMemo, useState } from "preact/hooks";
import type { SupportedWire } from "turnpike/facilitator";
import { type AnswerAt, createApi } from "../api";
import { planName, shorten } from "../format";
import { Alert, Empty, Panel, Shown } from "../parts";
import { SignedIn, type SignOut, useLoad, useMoney, useRound, useSigned } from "../use";
import { type Account, accountOf, type Wallet } from "../wallet/account";
import { Ask, type Wanted } from "../wallet/ask";
import { WalletButtons } from "../wallet/choice";
import type { ActContext, Mine } from "./me-acts";
import { Approvals, isGiven } from "./me-approval-list";
import { type Approval, permit2Approvals, stopAct, turnpikeApprovals } from "./me-approvals";
import { Charges, Spend } from "./me-charges";
import { Subscription } from "./me-subscription";

const POLL_MS = 15_000;

interface PortalProps {
  readonly apiKey: string;
  readonly who: AnswerAt<"GET", "/keys/current">;
  readonly supported: SupportedWire;
  readonly wallets: readonly Wallet[];
  readonly onNetwork: (network: string) => void;
  readonly onSignOut: SignOut;
}

export function Portal({ apiKey, who, supported, wallets, onNetwork, onSignOut }: PortalProps) {
  const { network, chains = [] } = supported;
  const api = useMemo(
    () => createApi(apiKey, chains.length > 1 ? network : undefined),
    [apiKey, network, chains.length],
  );
  const [acts, setActs] = useState(0);
  const tick = useRound(POLL_MS) + acts;
  const [chosen, setChosen] = useState<Wallet>();
  const wallet = chosen ?? (wallets.length === 1 ? wallets[0] : undefined);
  const account = useMemo(
    () => wallet && accountOf(wallet, who.provider, supported),
    [wallet, who.provider, supported.chainId],
  );
  return (
    <SignedIn.Provider value={{ api, tick, who, supported, signOut: onSignOut }}>
      <main id="main" class="me">
        <header class="me-top">
          <p class="brand">Turnpike</p>
          <span title={who.provider}>{shorten(who.provider)}</span>
          {chains.length > 1 && (
            <select aria-label="Chain" value={network} onChange={(event) => onNetwork(event.currentTarget.value)}>
              {chains.map((chain) => (
                <option key={chain.network}>{chain.network}</option>
              ))}
            </select>
          )}
          <button type="button" class="quiet" onClick={() => onSignOut()}>
            Sign out
          </button>
        </header>
        <h1>What I pay</h1>
        {account === undefined &&
          (wallets.length === 0 ? (
            <p class="note">This page only reads: no wallet was found in this browser.</p>
          ) : (
            <WalletButtons wallets={wallets} label="Act with" isBusy={false} isMain={false} onChoose={setChosen} />
          ))}
        <Standing account={account} onActed={() => setActs((count) => count + 1)} />
        <Spend />
        <Charges />
      </main>
    </SignedIn.Provider>
  );
}

/** What can be charged, and the acts that end it. */
function Standing({ account, onActed }: { account: Account | undefined; onActed: () => void }) {
  const { api, tick, who, supported, signOut } = useSigned();
  const money = useMoney();
  const [wanted, setWanted] = useState<Wanted>();
  const [permit2, setPermit2] = useState<readonly Approval[]>();
  const [problem, setProblem] = useState<string>();
  const at: ActContext | undefined = account && { api, account, supported, money };
  const again = String(tick);
  const mine = useLoad({
    name: `subscriptions of ${who.provider}`,
    load: () => subscriptionsOf(api, who.provider),
    again,
    signOut,
  });
  const approvals = useLoad({
    name: `approvals of ${who.provider}`,
    load: () => turnpikeApprovals({ api, supported }, who.provider),
    again,
    signOut,
  });
  async function readPermit2(): Promise<readonly Approval[]> {
    if (!at) return [];
    const read = await permit2Approvals(at);
    setPermit2(read);
    return read;
  }
  async function stop(): Promise<void> {
    if (!at) return;
    setProblem(undefined);
    try {
      const [{ live, more }, turnpike, other] = await Promise.all([
        subscriptionsOf(api, who.provider),
        turnpikeApprovals({ api, supported }, who.provider),
        readPermit2(),
      ]);
      setWanted(stopAct(at, { live, more, given: [...turnpike, ...other].filter(isGiven) }));
    } catch (error) {
      setProblem((error as Error).message);
    }
  }
  function close(isChanged: boolean): void {
    setWanted(undefined);
    if (!isChanged) return;
    onActed();
    if (permit2) readPermit2().catch((error: Error) => setProblem(error.message));
  }
  return (
    <>
      {at && (
        <p>
          <button type="button" class="danger" onClick={() => void stop()}>
            Stop everything…
          </button>
        </p>
      )}
      <Alert text={problem} />
      <Panel title="Subscriptions">
        <Shown of={mine}>
          {({ all, more }) => (
            <>
              {all.length === 0 && <Empty title="No subscription of this address here." />}
              {all.map((each) => (
                <Subscription key={each.subscription.idHash} of={each} at={at} onWanted={setWanted} />
              ))}
              {more && <p class="note">Older ones are not listed.</p>}
            </>
          )}
        </Shown>
      </Panel>
      <Panel title="Token approvals" note="Who may take your tokens, up to how much. Without one nothing is charged.">
        <Shown of={approvals}>
          {(list) => (
            <Approvals
              of={[...list, ...(permit2 ?? [])]}
              at={at}
              onWanted={setWanted}
              onReadPermit2={
                permit2 === undefined && at
                  ? () => void readPermit2().catch((error: Error) => setProblem(error.message))
                  : undefined
              }
            />
          )}
        </Shown>
      </Panel>
      {wanted && <Ask wanted={wanted} onClose={close} />}
    </>
  );
}

/** Loads an address's subscriptions with their plans; `live`: those that may still be charged. */
async function subscriptionsOf(api: ActContext["api"], address: string) {
  const { subscriptions, more } = await api.get(`/accounts/${address}/subscriptions`);
  const ids = [...new Set(subscriptions.map(({ planId }) => planId))];
  const plans = new Map(await Promise.all(ids.map(async (id) => [id, await api.get(`/plans/${id}`)] as const)));
  const all = subscriptions.flatMap((subscription): Mine[] => {
    const plan = plans.get(subscription.planId);
    return plan ? [{ subscription, plan, name: planName(plan.metadata, plan.planId) }] : [];
  });
  return { all, more, live: all.filter(({ subscription }) => subscription.status !== "CANCELLED") };
}
