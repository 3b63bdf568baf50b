/** Says in words what a wallet is about to be asked, and runs it once the person agrees. */
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiProblem } from "../api";
import { escapedText } from "../format";
import { Problem, type Progress } from "./account";

/** One act, in words. */
export interface Wanted {
  readonly title: string;
  /** what it changes, and what it costs */
  readonly words: readonly string[];
  /** of the button that begins it; absent: there is nothing to do */
  readonly button?: string;
  /** of the page that shows what was done */
  readonly seen?: string | undefined;
  /** for an act that cannot be undone: what the person types first */
  readonly typed?: string;
  /** @returns what was done, in words */
  run?(progress: Progress): Promise<string | Result>;
}

/** What was done, with a text to copy that is shown this once. */
export interface Result {
  readonly words: string;
  readonly copy: string;
}

type State =
  | { readonly kind: "words" | "running"; readonly text?: string }
  | { readonly kind: "problem" | "done"; readonly text: string; readonly copy?: string };

/** @param onClose whether anything may have changed */
export function Ask({ wanted, onClose }: { wanted: Wanted; onClose: (isChanged: boolean) => void }) {
  const box = useRef<HTMLDialogElement>(null);
  const turn = useRef(0);
  const [state, setState] = useState<State>({ kind: "words" });
  const [typed, setTyped] = useState("");
  useEffect(() => {
    const dialog = box.current;
    dialog?.showModal();
    return () => {
      turn.current += 1;
      // Closed before it is removed: the focus returns to where it was.
      dialog?.close();
    };
  }, []);
  const isRunning = state.kind === "running";
  const isTyped = wanted.typed === undefined || typed.trim() === wanted.typed;

  async function begin(): Promise<void> {
    turn.current += 1;
    const mine = turn.current;
    const isOver = () => turn.current !== mine;
    const show = (next: State) => {
      if (!isOver()) setState(next);
    };
    show({ kind: "running", text: "Checking your wallet." });
    try {
      const result = await wanted.run?.({
        say: (words) => show({ kind: "running", text: words }),
        check() {
          if (isOver()) throw new Problem("You gave up: nothing was sent.");
        },
      });
      show(
        typeof result === "object"
          ? { kind: "done", text: result.words, copy: result.copy }
          : { kind: "done", text: result ?? "" },
      );
    } catch (error) {
      show({ kind: "problem", text: wordsOf(error) });
    }
  }

  function giveUp(): void {
    turn.current += 1;
    setState({
      kind: "problem",
      text: "You stopped waiting. A late signature is not sent; a transaction that your wallet still shows, decline there.",
    });
  }

  return (
    <dialog
      ref={box}
      class="ask"
      aria-labelledby="ask-title"
      onCancel={(event) => {
        event.preventDefault();
        if (!isRunning) onClose(state.kind !== "words");
      }}
    >
      <h2 id="ask-title">{wanted.title}</h2>
      {wanted.words.map((words) => (
        <p key={words}>
          <bdi>{words}</bdi>
        </p>
      ))}
      {wanted.typed !== undefined && state.kind !== "done" && (
        <label>
          Type <bdi class="name">{escapedText(wanted.typed)}</bdi> to go on
          <input
            autocomplete="off"
            spellcheck={false}
            value={typed}
            disabled={isRunning}
            onInput={(event) => setTyped(event.currentTarget.value)}
          />
        </label>
      )}
      {isRunning && (
        <p class="note" role="status">
          {state.text}
        </p>
      )}
      {state.kind === "problem" && (
        <p class="problem" role="alert">
          {state.text}
        </p>
      )}
      {state.kind === "done" && (
        <p class="note good" role="status">
          {state.text}
        </p>
      )}
      {state.kind === "done" && wanted.seen && (
        <p>
          <a href={wanted.seen}>See what changed</a>
        </p>
      )}
      {state.kind === "done" && state.copy !== undefined && <Copy label="Copy it now" text={state.copy} />}
      <p class="buttons">
        {isRunning ? (
          <button type="button" onClick={giveUp}>
            Stop waiting
          </button>
        ) : (
          <>
            {state.kind !== "done" && wanted.button && (
              <button type="button" class="main" disabled={!isTyped} onClick={() => void begin()}>
                {state.kind === "problem" ? "Try again" : wanted.button}
              </button>
            )}
            <button type="button" onClick={() => onClose(state.kind !== "words")}>
              {state.kind === "words" ? "Back" : "Close"}
            </button>
          </>
        )}
      </p>
    </dialog>
  );
}

/** A text to copy, which the keyboard can select too. */
export function Copy({ label, text }: { label: string; text: string }) {
  const [isCopied, setCopied] = useState(false);
  return (
    <div class="act">
      <label>
        {label}
        <textarea readOnly rows={4} value={text} />
      </label>
      <button type="button" onClick={() => void navigator.clipboard?.writeText(text).then(() => setCopied(true))}>
        {isCopied ? "Copied" : "Copy"}
      </button>
    </div>
  );
}

/** The words for what the service refused; other errors have words of their own. */
export function wordsOf(error: unknown): string {
  if (error instanceof ApiProblem && error.code === "InvalidSignature")
    return "Your wallet signed something else, or with another account. Nothing was changed.";
  if (error instanceof ApiProblem) return `${error.message} (${error.code}). Nothing was changed.`;
  if (error instanceof Problem) return error.message;
  return `Something went wrong on this page: ${String(error).slice(0, 160)}`;
}
