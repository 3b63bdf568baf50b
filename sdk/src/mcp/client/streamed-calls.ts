/**
 * Lets the MCP SDK's streamed calls (`client.experimental.tasks.callToolStream`) end with an error where the tool asks for
 * payment: only `callTool` pays.
 */
import { PolicyRefused } from "../../protocol";
import { type CallResult, objectOf } from "../wire";
import { readAsk } from "./read-ask";

/** As the MCP SDK's stream yields them; the last one is a result or an error. */
interface StreamMessage {
  readonly type: string;
  readonly result?: unknown;
}

type CallToolStream = (params: { readonly name: string }, ...more: unknown[]) => AsyncIterable<StreamMessage>;

interface Tasks {
  readonly callToolStream: CallToolStream;
}

/** @param experimental of a client; some releases of the MCP SDK have none, or no tasks */
export function withUnpaidStreams<T>(experimental: T): T {
  const tasks = (experimental as { readonly tasks?: Tasks } | undefined)?.tasks;
  if (!tasks?.callToolStream) return experimental;
  const callToolStream: CallToolStream = (params, ...more) => untilAsked(tasks.callToolStream(params, ...more), params);
  const unpaid = new Proxy(tasks, {
    get(target, property) {
      if (property === "callToolStream") return callToolStream;
      const value: unknown = Reflect.get(target, property, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
  return { ...experimental, tasks: unpaid };
}

async function* untilAsked(messages: AsyncIterable<StreamMessage>, { name }: { readonly name: string }) {
  for await (const message of messages) {
    if (message.type !== "result" || !readAsk((objectOf(message.result) ?? {}) as CallResult)) {
      yield message;
      continue;
    }
    const error = new PolicyRefused(
      `The tool ${name} asks for payment, and streamed calls are not paid for. Nothing was signed. Call it by \`callTool\` of the same client.`,
      { reason: "stream" },
    );
    yield { type: "error", error };
    return;
  }
}
