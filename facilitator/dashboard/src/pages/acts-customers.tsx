/** Forms of acts for single customers: the end of a subscription, a voucher. */
import { type Address, type Hex, LONGEST_FIRST_INTERVAL_SEC, voucherTypedData } from "turnpike/protocol";
import { formatDate, shorten } from "../format";
import { Shown } from "../parts";
import { usePlanNames } from "../plan-names";
import { useGet, useMoney, useSigned, useUnit } from "../use";
import { ActForm } from "../wallet/act-form";
import { providerCalls } from "../wallet/calls";
import { requireOwn } from "../wallet/own-signature";
import { addressIn, baseUnits, chosenIn, FieldProblem, type Values, wholeIn } from "../wallet/values";
import { laterOf } from "./me-acts";

const LISTED = 100;
const DAY_SEC = 86_400;

export function CustomerActs({ round }: { round: number }) {
  const { api, who, supported } = useSigned();
  const money = useMoney();
  const unit = useUnit();
  const plans = usePlanNames();
  const subscriptions = useGet("/analytics/subscriptions", { limit: LISTED }, round);
  const calls = providerCalls(supported.turnpike);
  const open = (subscriptions.data?.subscriptions ?? []).filter(
    ({ status, ending }) => status !== "CANCELLED" && !ending,
  );
  const { chainId, network } = supported;
  const turnpike = supported.turnpike as Address;

  /** of the newest ones, or any other by its hash */
  const idIn = (values: Values): string => {
    const id = values.other || values.chosen || "";
    if (/^0x[0-9a-f]{64}$/.test(id)) return id;
    throw new FieldProblem(values.other ? "other" : "chosen", "Choose one, or give the whole hash of another.");
  };

  return (
    <>
      <Shown of={subscriptions}>{() => null}</Shown>
      <ActForm
        id="end-subscription"
        fields={[
          {
            name: "chosen",
            label: "Subscription",
            options: {
              "": "Choose one of the newest",
              ...Object.fromEntries(
                open.map(({ idHash, planId, subscriber, paidThrough }) => [
                  idHash,
                  `${plans.nameOf(planId)} of ${shorten(subscriber)}, paid until ${formatDate(paidThrough)}`,
                ]),
              ),
            },
          },
          { name: "other", label: "Or another, by its public hash", isOptional: true },
        ]}
        plan={async (values) => {
          const idHash = idIn(values);
          const { planId, subscriber, paidThrough } = await api.get(`/subscriptions/${idHash}`);
          const name = plans.nameOf(planId);
          return {
            title: `End a subscription to ${name}`,
            words: [
              `${subscriber} is served until ${formatDate(paidThrough)} and is charged for no further period. You cannot take this back.`,
            ],
            typed: name,
            call: calls.cancelAtPeriodEnd(idHash),
            note: { act: "subscription.ended", object: idHash },
            done: `It ends on ${formatDate(paidThrough)}.`,
          };
        }}
      />
      <ActForm
        id="voucher"
        isCall={false}
        fields={[
          { name: "plan", label: "Plan", options: { "": "Choose a plan", ...withoutAll(plans.options) } },
          { name: "subscriber", label: "Customer's address" },
          { name: "secretHash", label: "Hash of its secret (secretHash)" },
          { name: "firstAmount", label: "Price of the first period, in tokens", initial: "0" },
          { name: "days", label: "Days of the first period; 0: one regular period", initial: "7" },
          { name: "valid", label: "Days until the voucher expires", initial: "7" },
        ]}
        plan={async (values) => {
          const { planId, token, price } = chosenIn(plans.find(values.plan ?? ""), "plan", "plan");
          const subscriber = addressIn(values, "subscriber");
          const secretHash = values.secretHash ?? "";
          if (!/^0x[0-9a-f]{64}$/.test(secretHash)) throw new FieldProblem("secretHash", "Write 0x and 64 hex digits.");
          const amount = baseUnits(values.firstAmount ?? "", unit(token).decimals);
          if (amount === undefined || BigInt(amount) > BigInt(price))
            throw new FieldProblem(
              "firstAmount",
              `Write an amount of at most the plan's price, ${money(price, token)}.`,
            );
          const firstInterval = wholeIn(values, "days", LONGEST_FIRST_INTERVAL_SEC / DAY_SEC) * DAY_SEC;
          const { chainTimeSec } = await api.get(`/accounts/${who.provider}`, { token });
          const deadline = BigInt(laterOf(chainTimeSec, network) + wholeIn(values, "valid", 3_660) * DAY_SEC);
          const name = plans.nameOf(planId);
          return {
            title: `Make a voucher for ${name}`,
            words: [
              `${subscriber} may begin ${name} for ${money(amount, token)}, for ${firstInterval === 0 ? "one regular period" : `${firstInterval / DAY_SEC} days`}, once, until ${formatDate(Number(deadline))}. Then it pays the plan's price.`,
              "You pay no gas. To void it, revoke your right to sign vouchers.",
            ],
            note: { act: "voucher.signed", object: planId },
            done: "The voucher is signed.",
            async run(account, progress) {
              const message = {
                planId: planId as Hex,
                subscriber: subscriber as Address,
                secretHash: secretHash as Hex,
                token: token as Address,
                firstAmount: BigInt(amount),
                firstInterval,
                deadline,
              };
              const data = voucherTypedData({ chainId, turnpike }, message);
              const signature = await account.sign(data, progress);
              await requireOwn(account, data, signature);
              const voucher = {
                signer: who.provider,
                firstAmount: amount,
                firstInterval,
                deadline: String(deadline),
                signature,
              };
              return {
                words: "The voucher is signed. Send it to the customer's agent.",
                copy: JSON.stringify(voucher),
              };
            },
          };
        }}
      />
    </>
  );
}

const withoutAll = ({ "": _all, ...options }: Readonly<Record<string, string>>) => options;
