/** What leads from a value elsewhere: copying it, the block explorer. */
import type { ComponentChildren } from "preact";
import { Copy } from "./copy";
import { Hex } from "./parts";
import { useSigned } from "./use";

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
