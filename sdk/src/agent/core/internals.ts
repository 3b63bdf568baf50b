/** Gives other buyers of this package, such as MCP's, what an agent is made of. Nothing of it is public. */
import { ConfigError } from "../../protocol";
import type { AgentContext } from "./context";

export interface AgentInternals {
  readonly context: AgentContext;
  /** Runs a call of the agent: it ends with the agent, and its abort says whether anything was signed. */
  run<T>(signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T>;
}

const internals = new WeakMap<object, AgentInternals>();

export function registerAgent<A extends object>(agent: A, made: AgentInternals): A {
  internals.set(agent, made);
  return agent;
}

/** @throws ConfigError for anything but an agent of `createAgent` */
export function internalsOf(agent: object): AgentInternals {
  const found = typeof agent === "object" && agent !== null ? internals.get(agent) : undefined;
  if (found) return found;
  throw new ConfigError(
    "agent must be what createAgent returns, from the same copy of turnpike: import both by `import`, or both by `require`",
  );
}
