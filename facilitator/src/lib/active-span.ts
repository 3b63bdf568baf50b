/**
 * The span that the current work is part of. Statements and requests to nodes become parts of it. Where nothing is traced
 * there is none, and looking for it costs nothing.
 */
import { AsyncLocalStorage } from "node:async_hooks";

export interface ActiveSpan {
  /** Begins a part of it, which waits for another program. @returns the function that ends the part */
  begin(name: string, attributes: Readonly<Record<string, string>>): (error?: unknown) => void;
  /** Records that its work is done within the other one, together with that one's. */
  linkTo(other: ActiveSpan): void;
}

const storage = new AsyncLocalStorage<ActiveSpan | undefined>();

export const activeSpan = (): ActiveSpan | undefined => storage.getStore();

export function withinSpan<T>(span: ActiveSpan | undefined, act: () => T): T {
  return span === storage.getStore() ? act() : storage.run(span, act);
}
