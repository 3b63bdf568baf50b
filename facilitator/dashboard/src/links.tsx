/** What leads elsewhere: copying a value, the block explorer, an act. */
import type { ComponentChildren } from "preact";
import { Copy } from "./copy";
import { Hex } from "./parts";
import { useSigned } from "./use";
import { type ActId, actAt } from "./wallet/act-list";

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

/** A button that leads to an act of the provider's wallet. @param about fills in its fields */
export function ActLink({
  act,
  about,
  children,
}: {
  act: ActId;
  about?: Readonly<Record<string, string>>;
  children: ComponentChildren;
}) {
  return (
    <a class={about ? "button" : "button main"} href={actAt(act, about)}>
      {children}
    </a>
  );
}
