/**
 * What a program hands in that embeds this service as a sandbox: a clock that can be moved, and a key for whoever opens
 * the page. Nothing in the environment makes one, so no deployed service has it.
 */
import type { TestClockState } from "turnpike/facilitator";

export interface Sandbox {
  /** an API key of the sandbox's provider, worthless elsewhere */
  providerKey(): string;
  clock(): Promise<TestClockState>;
  /**
   * Begins to move the clock; what becomes due on the way is done.
   * @returns false when it is moving already
   */
  advance(by: { readonly seconds: number } | { readonly to: "next-renewal" }): Promise<boolean>;
}
