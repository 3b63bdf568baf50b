/**
 * A node's lying, failing, slow twin: an HTTP server of its own before a real node. Without faults it hands everything
 * through. It knows JSON-RPC and nothing of who asks.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface RpcCall {
  readonly id: unknown;
  readonly method: string;
  readonly params: readonly unknown[];
}

interface RpcAnswer {
  readonly jsonrpc: "2.0";
  readonly id: unknown;
  readonly result?: unknown;
  readonly error?: { readonly code: number; readonly message: string };
}

/** What happens to a request that holds a call which the fault strikes. */
export type Act =
  /** handed through, late */
  | { readonly kind: "delay"; readonly ms: number }
  /** the connection breaks; after: the node has got it, and its reply is lost */
  | { readonly kind: "drop"; readonly when: "before" | "after" }
  | { readonly kind: "http"; readonly status: number; readonly body: string }
  /** an answer with an error to the calls that are struck; the node never sees them, or sees them */
  | { readonly kind: "error"; readonly code: number; readonly message: string; readonly delivered: boolean }
  /** another result in place of the honest one; `ask` is an honest question to the node, which may not see some calls */
  | {
      readonly kind: "lie";
      readonly respond: (call: RpcCall, honest: unknown, ask: Ask) => unknown;
      readonly withholds?: (call: RpcCall) => boolean;
    }
  /** never delivered, and answered as if it had been */
  | { readonly kind: "swallow"; readonly respond: (call: RpcCall) => unknown };

export type Ask = (method: string, params: readonly unknown[]) => Promise<unknown>;

export interface Fault {
  readonly name: string;
  strikes(call: RpcCall): boolean;
  readonly act: Act;
}

export interface ChaosRpc {
  readonly url: string;
  /** The faults from now on, in this order; none: an honest node. */
  set(...faults: Fault[]): void;
  /** How often each of the faults has struck since they were set: a lie that equals the truth is none. */
  struck(): number[];
  stop(): Promise<void>;
}

export async function startChaosRpc(target: string): Promise<ChaosRpc> {
  let faults: readonly Fault[] = [];
  let struck: number[] = [];

  const forward = async (calls: readonly RpcCall[]): Promise<RpcAnswer[]> => {
    if (calls.length === 0) return [];
    const body = calls.map(({ method, params }, id) => ({ jsonrpc: "2.0", id, method, params }));
    const response = await fetch(target, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    const answers = (await response.json()) as RpcAnswer[];
    const byId = new Map(answers.map((answer) => [answer.id, answer]));
    return calls.map((call, id) => ({ ...(byId.get(id) as RpcAnswer), id: call.id }));
  };
  const ask: Ask = async (method, params) => (await forward([{ id: 0, method, params }]))[0]?.result;

  async function answer(calls: readonly RpcCall[], response: ServerResponse): Promise<RpcAnswer[] | undefined> {
    const counts = struck;
    const strike = (place: number): void => {
      counts[place] = (counts[place] ?? 0) + 1;
    };
    const acting = faults
      .map((fault, place) => ({ ...fault, struck: () => strike(place) }))
      .filter((fault) => calls.some((call) => fault.strikes(call)));
    for (const { act, struck } of acting) if (act.kind !== "lie") struck();
    for (const { act } of acting) {
      if (act.kind === "delay") await new Promise((resolve) => setTimeout(resolve, act.ms).unref());
      if (act.kind === "drop" && act.when === "before") return void response.destroy();
      if (act.kind === "http") return void response.writeHead(act.status).end(act.body);
    }
    const isKept = (call: RpcCall) => acting.some(({ act, strikes }) => strikes(call) && keeps(act, call));
    const honest = await forward(calls.filter((call) => !isKept(call)));
    if (acting.some(({ act }) => act.kind === "drop")) return void response.destroy();
    const byId = new Map(honest.map((one) => [one.id, one]));
    return Promise.all(
      calls.map(async (call) => {
        let answer: RpcAnswer = byId.get(call.id) ?? { jsonrpc: "2.0", id: call.id, result: null };
        for (const { act, strikes, struck } of acting) {
          if (!strikes(call)) continue;
          const changed = await change(act, call, answer);
          if (act.kind === "lie" && JSON.stringify(changed.result) !== JSON.stringify(answer.result)) struck();
          answer = changed;
        }
        return answer;
      }),
    );
  }

  async function change(act: Act, call: RpcCall, answer: RpcAnswer): Promise<RpcAnswer> {
    const base = { jsonrpc: "2.0", id: call.id } as const;
    if (act.kind === "error") return { ...base, error: { code: act.code, message: act.message } };
    if (act.kind === "swallow") return { ...base, result: act.respond(call) };
    if (act.kind === "lie" && answer.error === undefined)
      return { ...base, result: await act.respond(call, answer.result, ask) };
    return answer;
  }

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const asked = JSON.parse(Buffer.concat(chunks).toString()) as RpcCall | RpcCall[];
    const answers = await answer(Array.isArray(asked) ? asked : [asked], response);
    if (!answers) return;
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(Array.isArray(asked) ? answers : answers[0]));
  }

  const server = createServer((request, response) => {
    // The node itself is gone, or the asker is: no answer, as from any broken node.
    serve(request, response).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    set(...next) {
      faults = next;
      struck = next.map(() => 0);
    },
    struck: () => struck,
    async stop() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** Whether the node never sees the call. */
const keeps = (act: Act, call: RpcCall): boolean =>
  act.kind === "swallow" ||
  (act.kind === "error" && !act.delivered) ||
  (act.kind === "lie" && act.withholds?.(call) === true);
