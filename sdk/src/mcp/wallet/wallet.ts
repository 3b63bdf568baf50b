/**
 * Runs each tool call with an agent of its own, on the ledger that all hosts share. The agent's policy decides; where it
 * asks, the ledger is released, the person is asked, and the call runs again with that approval alone.
 */

import { type AgentMemory, createAgentMemory } from "../../agent/core/agent-options";
import { type AgentEvent, DEFAULT_LIMITS, type FetchFunction } from "../../agent/core/effects";
import type { SpendIntent } from "../../agent/core/policy-options";
import { type Agent, createAgentWith } from "../../agent/create-agent";
import { fileReceipts } from "../../agent/file-ledger";
import type { ReceiptStore } from "../../agent/ledger/evidence";
import { type Ledger, memoryLedger } from "../../agent/ledger/ledger-store";
import { AbortError, HEADER } from "../../protocol";
import type { Reach, WalletConfig } from "./config";
import { guardedFetch } from "./guarded-fetch";
import { LedgerSessions } from "./ledger-sessions";
import type { Log } from "./log";
import { covers, inquiryOf, type Person, requireApproval, requireFewQuestions } from "./person";

/** Hosts end a tool call after 60 s: a payment whose outcome is unknown by then is reported as pending. */
const LIMITS = { facilitatorTimeoutMs: 40_000, settleMs: 40_000, inFlightMs: 30_000 };

/** Headers that are credentials: what was sent in them never appears in a result. */
export const CREDENTIAL_HEADERS = [
  ...[HEADER.payment, HEADER.paymentSignatureV2, HEADER.subscription, HEADER.signIn, HEADER.paymentAuthorization],
] as const;

/** One tool call. */
export interface WalletCall {
  readonly person: Person;
  readonly signal: AbortSignal;
  readonly record: CallRecord;
}

/** What was noted while a call ran. */
export interface CallRecord {
  /** the credentials that were sent, for redaction */
  readonly secrets: Set<string>;
  /** why nothing was paid, where the agent says so without an error */
  refusal: { readonly code: string; readonly reason: string | undefined } | undefined;
}

type Ask = (intent: SpendIntent) => boolean;

export class Wallet {
  readonly config: WalletConfig;
  readonly #sessions: LedgerSessions;
  readonly #memory: AgentMemory;
  readonly #receipts: ReceiptStore;
  readonly #fetch: FetchFunction;
  readonly #log: Log;
  readonly #open = new Set<Agent>();
  readonly #running = new Set<Promise<unknown>>();
  #isClosed = false;

  /** @throws ConfigError that names the field of the file */
  constructor(config: WalletConfig, log: Log) {
    this.config = config;
    this.#sessions = new LedgerSessions(config.ledgerFile);
    this.#memory = createAgentMemory(DEFAULT_LIMITS);
    this.#receipts = fileReceipts(`${config.ledgerFile}.receipts`);
    this.#fetch = guardedFetch(config.reach);
    this.#log = log;
    // Checks the options once, so that a mistake shows at the start.
    this.#agent(memoryLedger(), () => false, { secrets: new Set(), refusal: undefined });
  }

  get reach(): Reach {
    return this.config.reach;
  }

  /**
   * Runs `work` with an agent.
   * @throws what it throws; PolicyRefused when a person had to approve and did not
   */
  async run<T>(call: WalletCall, work: (agent: Agent) => Promise<T>): Promise<T> {
    const approved: SpendIntent[] = [];
    for (;;) {
      let wanted: SpendIntent | undefined;
      const ask = (intent: SpendIntent): boolean => {
        if (approved.some((each) => covers(each, intent))) return true;
        wanted ??= intent;
        return false;
      };
      const outcome = await this.#once(work, ask, call.record);
      // Assigned in the callback, which the compiler does not follow.
      const question = wanted as SpendIntent | undefined;
      if (!question) {
        if (outcome.status === "rejected") throw outcome.reason;
        return outcome.value;
      }
      if (outcome.status === "fulfilled") await discard(outcome.value);
      requireFewQuestions(approved.length);
      await requireApproval(call.person, inquiryOf(question), call.signal);
      approved.push(question);
    }
  }

  /** Ends every call, and releases the ledger. What was signed stays in it. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#open].map((agent) => agent.close()));
    await Promise.allSettled(this.#running);
  }

  async #once<T>(work: (agent: Agent) => Promise<T>, ask: Ask, record: CallRecord): Promise<PromiseSettledResult<T>> {
    record.refusal = undefined;
    const running = this.#sessions.use(async (store) => {
      if (this.#isClosed) throw new AbortError("The wallet is closed. Nothing was signed by this call.");
      const agent = this.#agent(store, ask, record);
      this.#open.add(agent);
      const [outcome] = await Promise.allSettled([work(agent)]);
      this.#open.delete(agent);
      await agent.close();
      return outcome;
    });
    this.#running.add(running);
    try {
      return await running;
    } finally {
      this.#running.delete(running);
    }
  }

  #agent(store: Ledger, ask: Ask, record: CallRecord): Agent {
    const { agent, reach } = this.config;
    const send: FetchFunction = (input, init) => {
      const headers = new Headers(init.headers);
      for (const name of CREDENTIAL_HEADERS) {
        const value = headers.get(name);
        if (value !== null) record.secrets.add(value);
      }
      // Of MPP, in a header that may also be the caller's own.
      for (const name of [HEADER.authorization, HEADER.paymentAuthorization]) {
        const [, credential] = /^Payment (.+)$/.exec(headers.get(name) ?? "") ?? [];
        if (credential !== undefined) record.secrets.add(credential);
      }
      return this.#fetch(input, init);
    };
    const options = {
      ...agent,
      policy: { ...agent.policy, ask },
      ledger: store,
      receipts: this.#receipts,
      fetch: send as typeof fetch,
      limits: { ...LIMITS, requestTimeoutMs: reach.timeoutMs, quoteTimeoutMs: reach.timeoutMs },
      onEvent: (event: AgentEvent) => {
        if (event.type === "payment.refused") record.refusal = { code: event.code, reason: event.reason };
        const { type, ...facts } = event;
        this.#log(type, facts);
      },
    };
    return createAgentWith(options, {
      memory: this.#memory,
      // The Facilitators and RPCs of the file may be on this machine; nobody else names them.
      serviceFetch: fetch,
      withinOrigin: true,
    });
  }
}

/** Ends an unused answer's body. Not by instanceof of Response: libraries replace the global one. */
async function discard(result: unknown): Promise<void> {
  const { body } = (result ?? {}) as Partial<Response>;
  if (body instanceof ReadableStream) await body.cancel();
}
