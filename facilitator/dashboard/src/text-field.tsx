/** Filters that are typed: each applies when it is left or entered. */
import { useSigned } from "./use";

interface TextFieldProps {
  readonly label: string;
  readonly value: string;
  readonly type?: "text" | "date";
  /** @returns what is wrong with the value, which then does not apply */
  // biome-ignore lint/suspicious/noConfusingVoidType: what sets a value returns nothing
  readonly onChange: (value: string) => void | Promise<string | undefined>;
}

export function TextField({ label, value, type = "text", onChange }: TextFieldProps) {
  return (
    <label class="choice">
      <span>{label}</span>
      <input
        type={type}
        value={value}
        autocomplete="off"
        spellcheck={false}
        onInput={({ currentTarget }) => currentTarget.setCustomValidity("")}
        onChange={async ({ currentTarget }) => {
          if (!currentTarget.reportValidity()) return;
          const problem = await onChange(currentTarget.value.trim());
          currentTarget.setCustomValidity(problem ?? "");
          currentTarget.reportValidity();
        }}
      />
    </label>
  );
}

/** Takes an address, its first six digits or shortened form, or the label that the provider gave to it. */
export function PayerField({ value, onChange }: Pick<TextFieldProps, "value"> & { onChange: (value: string) => void }) {
  const { api } = useSigned();
  async function find(text: string): Promise<string | undefined> {
    if (text === "" || /^0x[0-9a-f]{40}$/i.test(text)) {
      onChange(text);
      return undefined;
    }
    try {
      const { hits } = await api.get("/search", { q: text });
      const [payer, another] = hits.filter(({ kind }) => kind === "payer");
      if (!payer || another)
        return another ? "Several payers begin so. Write more of it." : "No payer is found by this.";
      onChange(payer.id);
      return undefined;
    } catch (error) {
      return (error as Error).message;
    }
  }
  return <TextField label="Payer" value={value} onChange={find} />;
}
