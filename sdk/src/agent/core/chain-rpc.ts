/** Requests of the agent's own RPC endpoint, once it has shown that it serves the expected chain. */
import { describeFault, faultOf, postByFetch, RpcAnswerError, RpcEndpoint } from "../../chain/json-rpc";
import { type Address, concatBytes, type Hex, hexToBytes, isTurnpikeError, toHex, Unavailable } from "../../protocol";
import type { Effects } from "./effects";

/** What a reader needs of an agent. */
export type ReaderEffects = Pick<Effects, "fetch" | "closing"> & {
  readonly limits: Pick<Effects["limits"], "facilitatorTimeoutMs">;
};

/** A call of a view function. */
export interface ContractCall {
  readonly to: Address;
  /** four bytes */
  readonly selector: Uint8Array;
  /** 32 bytes each */
  readonly words: readonly Uint8Array[];
  /** a block's number in hex; default: the newest block */
  readonly block?: string;
}

const WORDS = /^0x(?:[0-9a-fA-F]{64})+$/;

export class ChainRpc {
  readonly #endpoint: RpcEndpoint;
  readonly #chainId: number;
  readonly #timeoutMs: number;
  /** for messages, with the host alone: the path may hold a key */
  readonly name: string;
  #isChecked = false;

  constructor(url: string, chainId: number, { fetch, closing, limits }: ReaderEffects) {
    this.#chainId = chainId;
    this.name = `The agent's RPC at ${URL.canParse(url) ? new URL(url).host : "an address that is no URL"}`;
    this.#timeoutMs = limits.facilitatorTimeoutMs;
    this.#endpoint = new RpcEndpoint({ url, post: postByFetch(fetch), timeoutMs: this.#timeoutMs, signal: closing });
  }

  /** Returns a method's result, which is neither null nor of another chain. @throws Unavailable */
  async request(method: string, params: readonly unknown[]): Promise<unknown> {
    if (!this.#isChecked) {
      const reported = Number(await this.#send("eth_chainId", []));
      if (reported !== this.#chainId) {
        throw new Unavailable(`${this.name} is of chain ${reported}, not ${this.#chainId}.`);
      }
      this.#isChecked = true;
    }
    return this.#send(method, params);
  }

  /** Returns the result of a view function, whole words of 32 bytes. @throws Unavailable */
  async call({ to, selector, words, block = "latest" }: ContractCall): Promise<Uint8Array> {
    const result = await this.request("eth_call", [{ to, data: toHex(concatBytes(selector, ...words)) }, block]);
    if (typeof result !== "string" || !WORDS.test(result)) {
      throw new Unavailable(`${this.name} gave no usable answer to a call of ${to}: is there such a contract?`);
    }
    return hexToBytes(result as Hex);
  }

  /** Returns the newest block: its number as it was sent, and its time in unix seconds. @throws Unavailable */
  async head(): Promise<{ readonly number: unknown; readonly timeSec: number }> {
    const block = (await this.request("eth_getBlockByNumber", ["latest", false])) as Record<
      "number" | "timestamp",
      unknown
    >;
    const timeSec = Number(block.timestamp);
    if (!Number.isSafeInteger(timeSec)) throw new Unavailable(`${this.name} gave a block without a time.`);
    return { number: block.number, timeSec };
  }

  async #send(method: string, params: readonly unknown[]): Promise<unknown> {
    try {
      const result = await this.#endpoint.request(method, params);
      if (result !== undefined && result !== null) return result;
    } catch (error) {
      const isAnswer = error instanceof RpcAnswerError || isTurnpikeError(error);
      const isLate = faultOf(error) === "timeout";
      if (isLate) {
        throw new Unavailable(`${this.name} did not answer within ${this.#timeoutMs} ms.`, { cause: error });
      }
      const what = isAnswer ? `did not answer ${method}` : "cannot be reached";
      throw new Unavailable(`${this.name} ${what} (${describeFault(error)}).`, { cause: error });
    }
    throw new Unavailable(`${this.name} did not answer ${method}.`);
  }
}
