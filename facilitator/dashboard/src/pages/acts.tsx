/** What a provider's wallet does: plans, customers and API keys. Reading needs a key; each act needs the wallet. */
import { shorten } from "../format";
import { useSigned } from "../use";
import { WithWallet } from "../wallet/act-form";
import { CustomerActs } from "./acts-customers";
import { KeyActs } from "./acts-keys";
import { PlanActs } from "./acts-plans";

export function Acts() {
  const { who } = useSigned();
  return (
    <>
      <p class="note">
        Each act is shown in words, then made by the wallet of {shorten(who.provider)}. This tab's key makes none of
        them. To refund, open a <a href="#/payments">payment</a> or a <a href="#/account">charge</a>.
      </p>
      <WithWallet without="No wallet was found in this browser: copy a call, and send it by yours.">
        {({ wallet, round }) => (
          <>
            <PlanActs />
            <CustomerActs round={round} />
            <KeyActs wallet={wallet} />
          </>
        )}
      </WithWallet>
    </>
  );
}
