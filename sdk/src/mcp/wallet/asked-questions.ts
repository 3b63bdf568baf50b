/**
 * Asks the person by the result of a call: the host brings the answer with the same call, which then runs again. Until
 * then the host holds what was approved, sealed; an answer counts once.
 */
import { randomUUID } from "node:crypto";
import { sha256, toHex, utf8ToBytes } from "../../protocol";
import { type Answer, type Person, requireFewQuestions } from "./person";

/** Ends a run whose result has to ask the person. */
export class QuestionAsked extends Error {
  readonly question: string;
  readonly state: AskedState;

  constructor(question: string, state: AskedState) {
    super("The person is asked.");
    this.question = question;
    this.state = state;
  }
}

/** What the host holds of a call until it brings the answer; it can be read there. */
export interface AskedState {
  readonly id: string;
  /** hash of the tool and its arguments */
  readonly call: string;
  /** hashes of the questions that were approved */
  readonly approved: readonly string[];
  /** hash of the question that is asked */
  readonly asked: string;
}

/** What the host brought with a call. */
export interface Brought {
  /** hash of the tool and its arguments */
  readonly call: string;
  /** whether the host can ask */
  readonly canAsk: boolean;
  readonly state: AskedState | undefined;
  /** undefined: none that answers */
  readonly answer: Exclude<Answer, "unsupported"> | undefined;
}

export const hashOf = (text: string): string => toHex(sha256(utf8ToBytes(text)));

/** How many questions may be open: of one that is older, the answer does not count. */
const MAX_OPEN = 64;

/** The questions of one process that wait for their answers. */
export class AskedQuestions {
  readonly #open = new Set<string>();

  /** Returns the person, as far as the call has brought their answers. `ask` throws QuestionAsked for any other question. */
  personOf({ call, canAsk, state, answer }: Brought): Person {
    const known = state && state.call === call && this.#open.delete(state.id) ? state : undefined;
    const approved = new Set(known?.approved);
    if (known && answer === "approved") approved.add(known.asked);
    return {
      ask: async (question) => {
        const asked = hashOf(question);
        if (approved.has(asked)) return "approved";
        // Also to what has changed since: nobody is asked again after a no.
        if (known && answer === "declined") return "declined";
        if (!canAsk) return "unsupported";
        requireFewQuestions(approved.size);
        throw new QuestionAsked(question, { id: this.#opened(), call, approved: [...approved], asked });
      },
    };
  }

  #opened(): string {
    const id = randomUUID();
    this.#open.add(id);
    for (const oldest of this.#open) {
      if (this.#open.size <= MAX_OPEN) break;
      this.#open.delete(oldest);
    }
    return id;
  }
}
