/** What a new account does first, each with what begins it. Done steps are ticked; all done, the list is gone. */
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Copy } from "../copy";
import { Panel } from "../parts";
import { useAllPlans } from "../plan-names";
import { useGet, useLoad, useSigned } from "../use";
import { actAt } from "../wallet/act-list";

interface Step {
  readonly title: string;
  readonly isDone: boolean;
  readonly how: ComponentChildren;
}

const KEY = "turnpike-steps-done";

/** @param isEmpty whether nothing ever happened: then the list takes its place before it is known what is done */
export function FirstSteps({ isEmpty }: { isEmpty: boolean }) {
  const { provider } = useSigned().who;
  const [isOver, setOver] = useState(() => localStorage.getItem(KEY) === provider);
  const end = (): void => {
    localStorage.setItem(KEY, provider);
    setOver(true);
  };
  return isOver ? null : <Steps isEmpty={isEmpty} onEnd={end} />;
}

function Steps({ isEmpty, onEnd }: { isEmpty: boolean; onEnd: () => void }) {
  const { api, who, tick, signOut } = useSigned();
  const plans = useAllPlans();
  const payers = useGet("/analytics/payers", { limit: 1 });
  const funnel = useGet("/analytics/funnel", { days: 365 });
  const canHook = who.scopes.includes("webhooks");
  const hooks = useLoad({
    name: "endpoints",
    load: async () => (canHook ? (await api.get("/webhook-endpoints")).endpoints.length : 1),
    again: String(tick),
    signOut,
  });
  const all = [plans, payers, funnel, hooks];
  const isPaid = (payers.data?.payers.length ?? 0) > 0;
  const isAsked = (funnel.data?.steps.find(({ step }) => step === "asked")?.count ?? 0) > 0;
  const steps: readonly Step[] = [
    {
      title: "Make a plan",
      isDone: (plans.data?.length ?? 0) > 0,
      how: <Begin at={actAt("create-plan")} text="Create a plan by your wallet" />,
    },
    {
      title: "Protect a route",
      isDone: isPaid || isAsked,
      how: <Snippet text={gateOf(who.provider)} what="the gate's code" />,
    },
    {
      title: "Add a webhook",
      isDone: (hooks.data ?? 0) > 0,
      how: <Begin at="#/webhooks?add=1" text="Add an endpoint" />,
    },
    { title: "Take a test payment", isDone: isPaid, how: <Snippet text={PAY} what="the command" /> },
  ];
  const done = steps.filter(({ isDone }) => isDone).length;
  const isOver = done === steps.length;
  useEffect(() => {
    if (isOver) onEnd();
  }, [isOver]);
  if (isOver || (!isEmpty && all.some(({ data, problem }) => data === undefined && !problem))) return null;
  return (
    <Panel
      title="First steps"
      note={`${done} of ${steps.length} done`}
      aside={
        <button type="button" class="quiet" onClick={onEnd}>
          Hide
        </button>
      }
    >
      <ol class="matters">
        {steps.map(({ title, isDone, how }) => (
          <li key={title} class={isDone ? "done" : undefined}>
            <strong>{title}</strong>
            {isDone ? <span class="note good"> done</span> : how}
          </li>
        ))}
      </ol>
    </Panel>
  );
}

const gateOf = (payTo: string): string => `import { configure, paymentGate } from "turnpike";

await configure({ payTo: "${payTo}", facilitator: { url: "${location.origin}" } });
app.get("/quote", paymentGate({ price: "$0.50" }), (req, res) => res.json({ price: 7 }));`;

const PAY = "npx turnpike pay http://localhost:3000/quote --max 0.50";

function Snippet({ text, what }: { text: string; what: string }) {
  return (
    <pre>
      {text} <Copy value={text} what={what} />
    </pre>
  );
}

function Begin({ at, text }: { at: string; text: string }) {
  return (
    <p class="buttons">
      <a class="button" href={at}>
        {text}
      </a>
    </p>
  );
}
