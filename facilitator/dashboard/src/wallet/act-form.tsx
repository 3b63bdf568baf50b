/** A form for one act of a provider's wallet: reviewed in words, then signed or sent here, or copied for another wallet. */
import { type ComponentChildren, createContext } from "preact";
import { useContext, useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { formatCoin, shorten } from "../format";
import { Alert, Options, Panel } from "../parts";
import { usePlace, useSigned } from "../use";
import { type Account, accountOf, otherAccount, Problem, type Progress, type Wallet } from "./account";
import { ACTS, type ActId } from "./act-list";
import { Ask, Copy, type Result, type Wanted, wordsOf } from "./ask";
import type { Call } from "./calls";
import { useWallets, WalletButtons } from "./choice";
import { FieldProblem, type Values } from "./values";

export interface Field {
  readonly name: string;
  readonly label: string;
  /** of a choice; absent: a text */
  readonly options?: Readonly<Record<string, string>>;
  readonly initial?: string;
  readonly isOptional?: boolean;
}

/** For the audit log. */
export interface Note {
  readonly act:
    | "plan.created"
    | "plan.deprecated"
    | "plan.stopped"
    | "plan.payee"
    | "plan.rights"
    | "subscription.ended"
    | "refund.signed"
    | "voucher.signed";
  readonly object: string;
}

/** What a form's values come to. */
export interface Planned extends Pick<Wanted, "title" | "words" | "typed"> {
  readonly note: Note;
  /** a transaction; absent: `run` asks for a signature */
  readonly call?: Call;
  readonly done: string;
  run?(account: Account, progress: Progress): Promise<string | Result>;
}

interface ActsAt {
  /** absent: on a page of something else, whose form is no act of the list */
  readonly act?: ActId | undefined;
  /** absent: no wallet is chosen */
  readonly account: Account | undefined;
  readonly onActed: () => void;
}

const ActsContext = createContext<ActsAt>({ account: undefined, onActed: () => undefined });

interface Chosen {
  readonly wallet: Wallet | undefined;
  /** counts the acts that were done */
  readonly round: number;
}

/** Has a wallet chosen for the forms within. @param act the one that is shown. @param without what is said where the browser has none */
export function WithWallet({
  act,
  without,
  children,
}: {
  act?: ActId;
  without: string;
  children: ComponentChildren | ((chosen: Chosen) => ComponentChildren);
}) {
  const { who, supported } = useSigned();
  const wallets = useWallets();
  const [chosen, setChosen] = useState<Wallet>();
  const [round, setRound] = useState(0);
  const wallet = chosen ?? (wallets.length === 1 ? wallets[0] : undefined);
  const { chainId, network } = supported;
  const other = useOther(wallet, who.provider);
  const account = useMemo(
    () => wallet && accountOf(wallet, who.provider, { chainId, network }),
    [wallet, who.provider, chainId, network],
  );
  return (
    <ActsContext.Provider value={{ act, account, onActed: () => setRound((now) => now + 1) }}>
      {!wallet &&
        (wallets.length === 0 ? (
          <p class="note">{without}</p>
        ) : (
          <WalletButtons wallets={wallets} label="Act with" isBusy={false} isMain={false} onChoose={setChosen} />
        ))}
      {other && (
        <p class="note waiting" role="status">
          Your wallet is on the account {shorten(other)}, but this page acts for {shorten(who.provider)}. Choose that
          account in your wallet.
        </p>
      )}
      {typeof children === "function" ? children({ wallet, round }) : children}
    </ActsContext.Provider>
  );
}

/** Follows the account that the wallet is on. @returns it where it is not the one that acts here */
function useOther(wallet: Wallet | undefined, address: string): string | undefined {
  const [other, setOther] = useState<string>();
  useEffect(() => (wallet ? otherAccount(wallet, address, setOther) : setOther(undefined)), [wallet, address]);
  return other;
}

interface ActFormProps {
  /** of an act with a page of its own */
  readonly id?: ActId;
  /** of any other, which is part of a page */
  readonly title?: string;
  readonly about?: string;
  readonly fields: readonly Field[];
  /** whether it is a transaction, which another wallet can send too */
  readonly isCall?: boolean;
  /** @throws Problem for values that it cannot be done with, a FieldProblem for one of them */
  readonly plan: (values: Values) => Planned | Promise<Planned>;
}

/** Shown where it is the act of this page. A field's value may come with the address. */
export function ActForm(props: ActFormProps) {
  const { act } = useContext(ActsContext);
  return props.id === undefined || props.id === act ? <Form key={props.id} {...props} /> : null;
}

function Form({ id, fields, isCall = true, plan, ...said }: ActFormProps) {
  const { title = "", about = "" } = id === undefined ? said : ACTS[id];
  const { query } = usePlace();
  const { api } = useSigned();
  const { account, onActed } = useContext(ActsContext);
  const [values, setValues] = useState<Values>({});
  const [problem, setProblem] = useState<{ readonly text: string; readonly field?: string }>();
  const form = useRef<HTMLFormElement>(null);
  const [isBusy, setBusy] = useState(false);
  const [wanted, setWanted] = useState<Wanted>();
  const [copied, setCopied] = useState<string>();
  const entered = ({ name, initial, options }: Field) =>
    values[name] ?? query.get(name) ?? initial ?? Object.keys(options ?? {})[0] ?? "";

  async function planned(): Promise<Planned> {
    return plan(Object.fromEntries(fields.map((field) => [field.name, entered(field).trim()])));
  }

  async function attempt(act: () => Promise<void>): Promise<void> {
    setBusy(true);
    setProblem(undefined);
    setCopied(undefined);
    try {
      await act();
    } catch (error) {
      const field = error instanceof FieldProblem ? error.field : undefined;
      setProblem({ text: wordsOf(error), ...(field && { field }) });
      form.current?.querySelector<HTMLElement>(`[name="${field}"]`)?.focus();
    } finally {
      setBusy(false);
    }
  }

  async function review(): Promise<void> {
    const { call, run, note, done, words, ...rest } = await planned();
    if (!account) throw new Problem("Choose a wallet above, or copy the call for another one.");
    if (!call) {
      setWanted({
        ...rest,
        words,
        seen: pageOf(note),
        button: "Sign in your wallet",
        async run(progress) {
          const result = await run?.(account, progress);
          return withNote(result ?? done, note);
        },
      });
      return;
    }
    // Simulated first: what would revert is refused here, with the contract's reason.
    await account.read(call);
    const wei = await account.cost(call);
    setWanted({
      ...rest,
      words: [...words, `Its gas costs you about ${formatCoin(wei.toString())} of the chain's coin.`],
      seen: pageOf(note),
      button: "Send by my wallet",
      async run(progress) {
        const transaction = await account.send(call, progress);
        return withNote(`${done} Transaction: ${transaction}`, { ...note, transaction });
      },
    });
  }

  async function withNote(result: string | Result, note: Note & { readonly transaction?: string }) {
    // What was typed is empty again, so that the same act twice is typed twice.
    setValues(Object.fromEntries(fields.flatMap((of) => (of.options ? [[of.name, entered(of)]] : []))));
    try {
      await api.send("POST", "/audit", note);
      return result;
    } catch {
      const missing = " The audit log did not take it.";
      return typeof result === "string" ? `${result}${missing}` : { ...result, words: `${result.words}${missing}` };
    }
  }

  return (
    <Panel title={id === undefined ? title : ""} note={about}>
      <form
        class="act"
        ref={form}
        onSubmit={(event) => {
          event.preventDefault();
          void attempt(review);
        }}
      >
        {fields.map((field) => (
          <Entry
            key={field.name}
            of={field}
            value={entered(field)}
            problem={problem?.field === field.name ? problem.text : undefined}
            onChange={(value) => {
              setValues({ ...values, [field.name]: value });
              setProblem(undefined);
            }}
          />
        ))}
        <p class="buttons">
          <button type="submit" class="main" disabled={isBusy}>
            Review<span class="hidden">: {title}</span>
          </button>
          {isCall && (
            <button
              type="button"
              class="quiet"
              disabled={isBusy}
              onClick={() =>
                void attempt(async () => {
                  const { call } = await planned();
                  if (call) setCopied(JSON.stringify({ to: call.to, data: call.data, value: "0" }));
                })
              }
            >
              Copy the call<span class="hidden">: {title}</span>
            </button>
          )}
        </p>
        <Alert text={problem?.field === undefined ? problem?.text : undefined} />
      </form>
      {copied && <Copy label="For a multisignature wallet" text={copied} />}
      {wanted && (
        <Ask
          wanted={wanted}
          onClose={(isChanged) => {
            setWanted(undefined);
            if (isChanged) onActed();
          }}
        />
      )}
    </Panel>
  );
}

/** The page that shows what an act changed, where it is another one than the act's own. */
function pageOf({ act, object }: Note): string | undefined {
  if (act === "subscription.ended") return `#/subscriptions/${object}`;
  if (act === "plan.created") return "#/plans";
  return act.startsWith("plan.") ? `#/plans/${object}` : undefined;
}

interface EntryProps {
  readonly of: Field;
  readonly value: string;
  readonly problem: string | undefined;
  readonly onChange: (value: string) => void;
}

function Entry({ of: { name, label, options, isOptional = false }, value, problem, onChange }: EntryProps) {
  const id = useId();
  const shared = {
    id: `${id}-of`,
    name,
    value,
    "aria-invalid": problem !== undefined,
    "aria-describedby": problem && id,
  };
  return (
    <>
      <label for={`${id}-of`}>
        {label}
        {options === undefined ? (
          <input
            {...shared}
            autocomplete="off"
            spellcheck={false}
            required={!isOptional}
            onInput={(event) => onChange(event.currentTarget.value)}
          />
        ) : (
          <select {...shared} onChange={(event) => onChange(event.currentTarget.value)}>
            <Options of={Object.hasOwn(options, value) ? options : { ...options, [value]: shorten(value) }} />
          </select>
        )}
      </label>
      <Alert text={problem} id={id} />
    </>
  );
}
