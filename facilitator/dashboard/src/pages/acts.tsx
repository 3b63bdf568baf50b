/** What a provider's wallet does: plans, customers and API keys. Reading needs a key; each act needs the wallet. */
import { useMemo, useState } from "preact/hooks";
import { shorten } from "../format";
import { useSigned } from "../use";
import { accountOf, type Wallet } from "../wallet/account";
import { ActsContext } from "../wallet/act-form";
import { useWallets, WalletButtons } from "../wallet/choice";
import { CustomerActs } from "./acts-customers";
import { KeyActs } from "./acts-keys";
import { PlanActs } from "./acts-plans";

export function Acts() {
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
  return (
    <ActsContext.Provider value={{ account, onActed: () => setRound((now) => now + 1) }}>
      <p class="note">
        Each act is shown in words, then made by the wallet of {shorten(who.provider)}. This tab's key makes none of
        them.
      </p>
      {!wallet &&
        (wallets.length === 0 ? (
          <p class="note">No wallet was found in this browser: copy a call, and send it by yours.</p>
        ) : (
          <WalletButtons wallets={wallets} label="Act with" isBusy={false} isMain={false} onChoose={setChosen} />
        ))}
      <PlanActs />
      <CustomerActs round={round} />
      <KeyActs wallet={wallet} />
    </ActsContext.Provider>
  );
}
