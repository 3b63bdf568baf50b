/** Finds records by what names them, from every page: the key `/` opens it, arrows choose, Enter goes there. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { SearchWire } from "turnpike/facilitator";
import { endsOf, escapedText, planName } from "./format";
import { Label } from "./parts";
import { useMoney, useSigned } from "./use";
import { ACTS } from "./wallet/act-list";

type Hit = Omit<SearchWire["hits"][number], "kind"> & { readonly kind: SearchWire["hits"][number]["kind"] | "action" };

/** What can be done is found by its name. */
const actionsOf = (words: string): Hit[] =>
  Object.entries(ACTS)
    .filter(([, { title }]) => title.toLowerCase().includes(words.toLowerCase()))
    .map(([id, { title }]) => ({ kind: "action", id: "", text: title, page: `/acts/${id}` }));

/** Typing is not a question for each letter. */
const PAUSE_MS = 150;

const isTyping = ({ target }: KeyboardEvent): boolean =>
  target instanceof HTMLElement && target.closest("input, textarea, select, dialog, [contenteditable]") !== null;

export function Search() {
  const dialog = useRef<HTMLDialogElement>(null);
  const [isOpen, setOpen] = useState(false);
  const open = (): void => {
    setOpen(true);
    dialog.current?.showModal();
  };
  const close = (): void => dialog.current?.close();
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || isTyping(event)) return;
      event.preventDefault();
      open();
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
  return (
    <>
      <button type="button" class="find" aria-haspopup="dialog" aria-keyshortcuts="/" onClick={open}>
        Search <kbd>/</kbd>
      </button>
      <dialog ref={dialog} aria-label="Search" onClose={() => setOpen(false)}>
        {isOpen && <Box onDone={close} />}
      </dialog>
    </>
  );
}

type State = { readonly of: string; readonly hits: readonly Hit[] } | { readonly of: string; readonly problem: string };

function Box({ onDone }: { onDone: () => void }) {
  const { api } = useSigned();
  const field = useRef<HTMLInputElement>(null);
  const [text, setText] = useState("");
  const [state, setState] = useState<State>();
  const [chosen, choose] = useState(0);
  const wanted = text.trim();
  // With the first rendering: what is typed at once must not get lost.
  useLayoutEffect(() => field.current?.focus(), []);
  useEffect(() => {
    choose(0);
    if (wanted === "") return setState(undefined);
    let isCurrent = true;
    const timer = setTimeout(() => {
      api.get("/search", { q: wanted }).then(
        ({ hits }) => isCurrent && setState({ of: wanted, hits: [...hits, ...actionsOf(wanted)] }),
        (error: Error) => isCurrent && setState({ of: wanted, problem: error.message }),
      );
    }, PAUSE_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [wanted, api]);

  const hits = state && "hits" in state && state.of === wanted ? state.hits : [];
  const go = (hit: Hit | undefined): void => {
    if (!hit) return;
    onDone();
    location.hash = hit.page;
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0 && hits.length > 0) {
      event.preventDefault();
      choose((chosen + step + hits.length) % hits.length);
    } else if (event.key === "Escape") {
      // A field of this type would take the first one to empty itself.
      event.preventDefault();
      onDone();
    } else if (event.key === "Enter") {
      event.preventDefault();
      go(hits[chosen]);
    }
  };
  return (
    <>
      <div class="search">
        <input
          ref={field}
          type="search"
          role="combobox"
          aria-label="Transaction, memo, id, payer, or the start of a plan's name"
          placeholder="Transaction, id or payer (or how it begins), memo, plan"
          aria-autocomplete="list"
          aria-expanded={hits.length > 0}
          aria-controls="hits"
          aria-activedescendant={hits.length > 0 ? `hit-${chosen}` : undefined}
          maxLength={256}
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={({ currentTarget }) => setText(currentTarget.value)}
          onKeyDown={onKeyDown}
        />
        <button type="button" onClick={onDone}>
          Close
        </button>
      </div>
      <div id="hits" class="hits" role="listbox" aria-label="What was found" hidden={hits.length === 0}>
        {hits.map((hit, place) => (
          // biome-ignore lint/a11y/useKeyWithClickEvents: the field above has the keys
          <div
            key={hit.page + hit.id}
            id={`hit-${place}`}
            role="option"
            tabIndex={-1}
            aria-selected={place === chosen}
            onClick={() => go(hit)}
          >
            <Shown of={hit} />
          </div>
        ))}
      </div>
      <p class="note" role="status">
        {wanted === ""
          ? "Transaction, memo, id of a payment, subscription or plan, payer's address, the start of a plan's name or of an endpoint's description, part of a label, an action."
          : state?.of !== wanted
            ? "Searching…"
            : "problem" in state
              ? state.problem
              : state.hits.length === 0
                ? "Nothing of yours has this name. An id is found whole, by 0x and its first six digits, or as a page shortens it."
                : `${state.hits.length} found: arrows choose, Enter opens.`}
      </p>
    </>
  );
}

function Shown({ of: { kind, id, text, amount, token } }: { of: Hit }) {
  const money = useMoney();
  const [start, end] = endsOf(id);
  // The label of a payer or plan is loaded already.
  const said = text === undefined || kind === "payer" ? "" : isPlan(kind) ? planName(text, "") : escapedText(text);
  return (
    <>
      <strong>{kind}</strong> {id && <code>{end ? `${start}…${end}` : start}</code>} {said && <bdi>{said}</bdi>}{" "}
      <Label of={id} /> {amount !== undefined && money(amount, token)}
    </>
  );
}

/** Their text is a plan's metadata. */
const isPlan = (kind: Hit["kind"]): boolean => kind === "plan" || kind === "subscription";
