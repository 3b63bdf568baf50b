/** Offers the wallets of this browser. Names are strangers' text; icons are not shown. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { plainText } from "../format";
import { discoverWallets, type Wallet } from "./account";

/** Wallets announce themselves also after the page has asked. */
const LATE_MS = 300;

export function useWallets(): readonly Wallet[] {
  const found = useMemo(discoverWallets, []);
  const [wallets, setWallets] = useState(found);
  useEffect(() => {
    const timer = setTimeout(() => setWallets(found()), LATE_MS);
    return () => clearTimeout(timer);
  }, [found]);
  return wallets;
}

interface WalletButtonsProps {
  readonly wallets: readonly Wallet[];
  readonly label: string;
  readonly isBusy: boolean;
  readonly isMain?: boolean;
  readonly onChoose: (wallet: Wallet) => void;
}

/** One button; of several wallets one for each. */
export function WalletButtons({ wallets, label, isBusy, isMain = true, onChoose }: WalletButtonsProps) {
  return (
    <p class="buttons">
      {wallets.map((wallet) => (
        <button
          key={wallet.id}
          type="button"
          class={isMain ? "main" : undefined}
          disabled={isBusy}
          onClick={() => onChoose(wallet)}
        >
          {label}
          {wallets.length > 1 && (
            <>
              {": "}
              <bdi>{plainText(wallet.name) || "a wallet without a name"}</bdi>
            </>
          )}
        </button>
      ))}
    </p>
  );
}
