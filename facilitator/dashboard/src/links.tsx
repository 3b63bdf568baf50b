/** What leads from a value elsewhere: copying it, its page here, the block explorer. */
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Hex } from "./parts";
import { useSigned } from "./use";

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

/** A value that is read and copied as a whole. */
export function Whole({ value, what, children }: { value: string; what: string; children?: ComponentChildren }) {
  return (
    <>
      {children ?? <code>{value}</code>} <Copy value={value} what={what} />
    </>
  );
}

/** Links a transaction, address or block to the block explorer, where there is one. */
export function OnChain({ of, value, short }: { of: "tx" | "address" | "block"; value: string; short?: boolean }) {
  const { explorer } = useSigned().supported;
  const shown = short ? <Hex value={value} /> : <code>{value}</code>;
  if (explorer === undefined) return shown;
  return (
    <a href={`${explorer}/${of}/${value}`} rel="noreferrer noopener" target="_blank">
      {shown} <span aria-hidden="true">↗</span>
      <span class="hidden"> in the block explorer</span>
    </a>
  );
}
