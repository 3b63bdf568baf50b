/** The form that returns a payment, charge or debit in part or whole, by the provider's wallet. */
import type { ChargeStoryWire, PaymentStoryWire } from "turnpike/facilitator";
import { type Address, type RefundTarget, refundedIdOf, refundNonce, transferTypedData } from "turnpike/protocol";
import { useMoney, useSigned, useUnit } from "../use";
import { ActForm, WithWallet } from "../wallet/act-form";
import { baseUnits, FieldProblem } from "../wallet/values";
import { laterOf, settled } from "./me-acts";

type Story = Pick<PaymentStoryWire | ChargeStoryWire, "token" | "payer" | "amount" | "refunds">;

/** Whatever a refund that is under way may still return is not left. */
const leftOf = ({ amount, refunds }: Story): bigint =>
  refunds.reduce((left, refund) => (refund.status === "failed" ? left : left - BigInt(refund.amount)), BigInt(amount));

interface RefundProps {
  readonly of: Story;
  readonly what: string;
  readonly target: ChargeStoryWire["target"];
  /** Reads it again: another refund may be under way. */
  readonly load: () => Promise<Story>;
}

export function Refund({ of, what, target, load }: RefundProps) {
  const { api, who, supported } = useSigned();
  const money = useMoney();
  const { token, payer } = of;
  const { decimals } = useUnit()(token);
  const { chainId, network } = supported;
  const refundedId = refundedIdOf({ chainId, turnpike: supported.turnpike as Address }, target as RefundTarget);
  if (leftOf(of) <= 0n) return null;
  return (
    <WithWallet without="No wallet was found in this browser: refund by the SDK's submitRefund().">
      <ActForm
        title={`Refund this ${what}`}
        about="A transfer from your wallet to the payer. The Facilitator sends it, and you pay no gas. It ends no subscription."
        isCall={false}
        fields={[{ name: "amount", label: "Amount to return, in tokens" }]}
        plan={async (values) => {
          const now = await load();
          const left = leftOf(now);
          const amount = baseUnits(values.amount ?? "", decimals);
          if (amount === undefined || amount === "0" || BigInt(amount) > left)
            throw new FieldProblem(
              "amount",
              `The amount must be above 0 and at most ${money(left.toString(), token)}.`,
            );
          const index = Math.max(-1, ...now.refunds.map((refund) => refund.index)) + 1;
          return {
            title: `Refund ${money(amount, token)}`,
            words: [
              `Returns ${money(amount, token)} of ${money(now.amount, token)} to ${payer}, from your wallet. You pay no gas.`,
            ],
            note: { act: "refund.signed", object: refundedId },
            done: `${money(amount, token)} is refunded.`,
            async run(account, progress) {
              const { tokenName, tokenVersion, chainTimeSec } = await api.get(`/accounts/${who.provider}`, { token });
              const authorization = {
                from: who.provider as Address,
                to: payer as Address,
                value: BigInt(amount),
                validAfter: 0n,
                validBefore: BigInt(laterOf(chainTimeSec, network) + 600),
                nonce: refundNonce(refundedId, index),
              };
              const domain = { chainId, token: token as Address, name: tokenName, version: tokenVersion };
              const signature = await account.sign(transferTypedData(domain, authorization), progress);
              const { value, validAfter, validBefore, ...parties } = authorization;
              const numbers = { value: amount, validAfter: "0", validBefore: validBefore.toString() };
              const body = { network, token, target, index, authorization: { ...parties, ...numbers }, signature };
              await settled(() => api.send("POST", "/refunds", body), progress);
              return `${money(amount, token)} is refunded.`;
            },
          };
        }}
      />
    </WithWallet>
  );
}
