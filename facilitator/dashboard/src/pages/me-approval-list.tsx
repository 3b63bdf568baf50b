/** The token approvals of a payer, each with its withdrawal. */
import { shorten } from "../format";
import { Table } from "../parts";
import { useMoney, useSigned } from "../use";
import type { Wanted } from "../wallet/ask";
import type { ActContext } from "./me-acts";
import { type Approval, on, withdrawAct } from "./me-approvals";

/** More than any token has: wallets write an approval without limit so. */
const UNLIMITED = 2n ** 128n;

export const isGiven = ({ amount }: Approval): boolean => amount !== "0";

export function Approvals({
  of,
  at,
  onWanted,
}: {
  of: readonly Approval[];
  at: ActContext | undefined;
  onWanted: (wanted: Wanted) => void;
}) {
  const money = useMoney();
  const { supported } = useSigned();
  return (
    <Table
      caption={`Token approvals${on(supported)}`}
      empty="This service settles no token."
      rows={of}
      columns={[
        {
          title: "Who",
          cell: (approval) => (
            <>
              {approval.of}
              <span class="note line" title={approval.spender}>
                {shorten(approval.spender)} · <bdi>{approval.tokenName}</bdi>
              </span>
              {at && isGiven(approval) && (
                <button type="button" class="quiet" onClick={() => onWanted(withdrawAct(at, approval))}>
                  Withdraw<span class="hidden"> {approval.of}'s approval</span>
                </button>
              )}
            </>
          ),
        },
        {
          title: "Up to",
          isNumber: true,
          cell: ({ amount, token }) => (BigInt(amount) >= UNLIMITED ? "no limit" : money(amount, token)),
        },
      ]}
    />
  );
}
