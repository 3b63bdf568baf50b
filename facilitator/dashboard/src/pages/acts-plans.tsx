/** Forms of acts on plans. Each is a transaction of the provider's wallet. */
import { formatInterval, formatPeriod, plainText, shorten } from "../format";
import { type Plan, usePlanNames } from "../plan-names";
import { useMoney, useSigned, useUnit } from "../use";
import { ActForm } from "../wallet/act-form";
import { providerCalls } from "../wallet/calls";
import { addressIn, baseUnits, chosenIn, FieldProblem, type Values, wholeIn } from "../wallet/values";

const UNITS = { months: "months", days: "days", seconds: "seconds" };

/** By name, in the order of the choice, with the bit that the contract knows it by. */
const RIGHTS = {
  debit: { bit: 1, text: "charge use up to customers' caps" },
  voucher: { bit: 2, text: "sign vouchers" },
  receipt: { bit: 4, text: "sign receipts of use" },
  none: { bit: 0, text: "nothing: revoke all" },
};

export function PlanActs() {
  const { who, supported } = useSigned();
  const money = useMoney();
  const unit = useUnit();
  const plans = usePlanNames();
  const calls = providerCalls(supported.turnpike);
  const { "": _all, ...options } = plans.options;
  const choice = { "": "Choose a plan", ...options };
  const open = Object.entries(options).filter(([planId]) => !plans.find(planId)?.deprecated);
  const planField = { name: "plan", label: "Plan", options: choice };
  const tokens = Object.fromEntries(supported.tokens.map(({ address, name }) => [address, plainText(name)]));

  const rights = Object.fromEntries(Object.entries(RIGHTS).map(([name, { text }]) => [name, text]));

  function planIn({ plan: planId = "" }: Values): Plan & { readonly name: string } {
    const plan = chosenIn(plans.find(planId), "plan", "plan");
    return { ...plan, name: plans.nameOf(planId) };
  }

  return (
    <>
      <ActForm
        id="create-plan"
        fields={[
          { name: "name", label: "Name, which buyers see" },
          { name: "price", label: "Price of a period, in tokens" },
          { name: "token", label: "Token", options: tokens },
          { name: "count", label: "Length of a period", initial: "1" },
          { name: "unit", label: "Counted in", options: UNITS },
          { name: "grace", label: "Hours of service while a renewal is awaited", initial: "24" },
          { name: "payTo", label: "Paid to", initial: who.provider },
          { name: "trial", label: "Trial that you offer by vouchers, in words", isOptional: true },
          { name: "overage", label: "What metered use costs, in words", isOptional: true },
          { name: "again", label: "Number, to sell the same terms once more", initial: "0" },
        ]}
        plan={(values) => {
          const { name = "", price = "", token = "", unit: counted, payTo, trial, overage } = values;
          const amount = baseUnits(price, unit(token).decimals);
          if (amount === undefined || amount === "0")
            throw new FieldProblem("price", "The price must be an amount above 0, such as 9.50.");
          const isMonths = counted === "months";
          const length = wholeIn(values, "count", isMonths ? 1_200 : undefined) * (counted === "days" ? 86_400 : 1);
          const graceSec = wholeIn(values, "grace", 10_000) * 3_600;
          const terms = {
            token,
            amount,
            interval: length,
            months: isMonths,
            graceSec,
            payTo: addressIn(values, "payTo"),
          };
          const salt = `0x${wholeIn(values, "again").toString(16).padStart(64, "0")}`;
          const metadata = JSON.stringify({ name, ...(trial && { trial }), ...(overage && { overage }) });
          const shownName = plainText(name);
          return {
            title: `Create the plan ${shownName}`,
            words: [
              `${money(amount, token)} every ${formatPeriod({ unit: isMonths ? "month" : "second", count: length })}, paid to ${payTo}. Service goes on for ${formatInterval(graceSec)} while a renewal is awaited.`,
              ...(trial ? [`Buyers read: trial ${plainText(trial)}. You give it by a voucher for each customer.`] : []),
              ...(overage ? [`Buyers read: use costs ${plainText(overage)}.`] : []),
              "Anyone can subscribe to it. Nothing is charged by creating it.",
            ],
            call: calls.createPlan(terms, salt, metadata),
            note: { act: "plan.created", object: supported.turnpike },
            done: `The plan ${shownName} is created.`,
          };
        }}
      />
      <ActForm
        id="deprecate-plan"
        fields={[
          planField,
          { name: "successor", label: "Successor", options: { "": "None", ...Object.fromEntries(open) } },
        ]}
        plan={(values) => {
          const { planId, name } = planIn(values);
          const successor = values.successor || undefined;
          return {
            title: `Deprecate ${name}`,
            words: [
              `Nobody can subscribe to ${name} any more, for good. Its subscriptions go on renewing.`,
              successor ? `Gates name ${plans.nameOf(successor)} instead.` : "No successor is named.",
            ],
            typed: name,
            call: calls.deprecatePlan(planId, successor),
            note: { act: "plan.deprecated", object: planId },
            done: `${name} is deprecated.`,
          };
        }}
      />
      <ActForm
        id="stop-plan"
        fields={[planField]}
        plan={(values) => {
          const { planId, name, active } = planIn(values);
          return {
            title: `Stop ${name}`,
            words: [
              `${name} charges nothing any more, for good. ${active} active subscriptions end with the period that they have paid, without grace.`,
            ],
            typed: name,
            call: calls.stopPlan(planId),
            note: { act: "plan.stopped", object: planId },
            done: `${name} is stopped.`,
          };
        }}
      />
      <ActForm
        id="change-payee"
        fields={[
          planField,
          {
            name: "how",
            label: "What to do",
            options: { propose: "Propose", withdraw: "Withdraw the proposal", apply: "Apply it" },
          },
          { name: "payTo", label: "New payee, for a proposal", isOptional: true },
        ]}
        plan={(values) => {
          const { planId, name, payTo, proposedPayTo } = planIn(values);
          const note = { act: "plan.payee", object: planId } as const;
          if (values.how === "propose") {
            const next = addressIn(values, "payTo");
            return {
              title: `Propose another payee of ${name}`,
              words: [
                `Seven days from now anyone can make ${next} the payee of ${name}: it then receives every charge. Until then ${payTo} does, and either of you can withdraw the proposal.`,
                "Choose an address whose key you have, not an exchange's.",
              ],
              typed: name,
              call: calls.proposePayTo(planId, next),
              note,
              done: `${shorten(next)} is proposed.`,
            };
          }
          const proposed = proposedPayTo?.payTo ?? "no account";
          const isApplied = values.how === "apply";
          return {
            title: isApplied ? `Apply the payee of ${name}` : `Withdraw the proposal for ${name}`,
            words: [
              isApplied
                ? `From now on every charge of ${name} goes to ${proposed} instead of ${payTo}.`
                : `${proposed} is no longer proposed. ${payTo} stays the payee of ${name}.`,
            ],
            ...(isApplied && { typed: name }),
            call: isApplied ? calls.applyPayTo(planId) : calls.withdrawPayTo(planId),
            note,
            done: isApplied ? `${shorten(proposed)} is the payee.` : "The proposal is withdrawn.",
          };
        }}
      />
      <ActForm
        id="grant-right"
        fields={[
          planField,
          { name: "account", label: "Account", ...(supported.relayers[0] && { initial: supported.relayers[0] }) },
          { name: "rights", label: "It may", options: { "": "Choose a right", ...rights } },
        ]}
        plan={(values) => {
          const { planId, name } = planIn(values);
          const account = addressIn(values, "account");
          const named = Object.hasOwn(RIGHTS, values.rights ?? "") && RIGHTS[values.rights as keyof typeof RIGHTS];
          const right = chosenIn(named, "rights", "right");
          const isNone = right.bit === 0;
          return {
            title: isNone ? `Revoke rights on ${name}` : `Grant a right on ${name}`,
            words: [
              `${account} may from now on, on ${name}: ${right.text}. Any other right that it had there ends.`,
              isNone
                ? "Vouchers that it signed and nobody used are void."
                : "It can move no money elsewhere than to the plan's payee.",
            ],
            ...(isNone && { typed: name }),
            call: calls.setOperator(planId, account, right.bit),
            note: { act: "plan.rights", object: planId },
            done: isNone ? "The rights are revoked." : "The right is granted.",
          };
        }}
      />
    </>
  );
}
