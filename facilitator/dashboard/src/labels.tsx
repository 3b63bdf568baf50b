/** What the provider calls its payers and plans, loaded once for all pages; and the form that changes it. */
import { type ComponentChildren, createContext } from "preact";
import { useContext, useState } from "preact/hooks";
import { type Signed, useLoad, useSigned } from "./use";

interface Labels {
  find(object: string): string | undefined;
  /** Loads them again. */
  reload(): void;
}

const Context = createContext<Labels>({ find: () => undefined, reload: () => undefined });

export const useLabels = (): Labels => useContext(Context);

export function WithLabels({
  api,
  signOut,
  children,
}: Pick<Signed, "api" | "signOut"> & { children: ComponentChildren }) {
  const [round, setRound] = useState(0);
  const { data } = useLoad({ name: "labels", load: () => api.get("/labels"), again: String(round), signOut });
  const texts = new Map(data?.labels.map(({ object, text }) => [object, text]));
  return (
    <Context.Provider value={{ find: (object) => texts.get(object), reload: () => setRound((now) => now + 1) }}>
      {children}
    </Context.Provider>
  );
}

export function LabelForm({ of }: { of: string }) {
  const { api, who } = useSigned();
  const { find, reload } = useLabels();
  const saved = find(of) ?? "";
  const [typed, setTyped] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const text = typed ?? saved;
  if (!who.scopes.includes("webhooks")) return null;
  async function save(): Promise<void> {
    try {
      await api.send("POST", "/labels", { object: of, text });
      setProblem(undefined);
      setTyped(undefined);
      reload();
    } catch (error) {
      setProblem((error as Error).message);
    }
  }
  return (
    <form
      class="buttons"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      <label class="choice">
        <span>Label, which only you see</span>
        <input
          maxLength={64}
          autocomplete="off"
          value={text}
          onInput={({ currentTarget }) => setTyped(currentTarget.value)}
        />
      </label>
      <button type="submit" disabled={text.trim() === saved}>
        Save label
      </button>
      {problem && <span role="alert">{problem}</span>}
    </form>
  );
}
