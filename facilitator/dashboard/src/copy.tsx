/** Copies a text to the clipboard. */
import { useState } from "preact/hooks";

/** Pages without a secure context have no clipboard: there the text is selected and copied by the browser. */
async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

export function Copy({ value, what }: { value: string; what: string }) {
  const [said, say] = useState("Copy");
  const done = (text: string): void => {
    say(text);
    setTimeout(() => say("Copy"), 2_000);
  };
  return (
    <button
      type="button"
      class="copy"
      aria-label={`${said} ${what}`}
      onClick={() =>
        copy(value).then(
          () => done("Copied"),
          () => done("Not copied"),
        )
      }
    >
      {said}
    </button>
  );
}
