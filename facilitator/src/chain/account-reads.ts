/**
 * Reads token state of many payers in one call: whether they have code, whether a nonce is used, their balances. Sends
 * a contract-creation call whose code runs over an appended list and returns the answers. It works on every chain, and
 * needs no deployed contract.
 */
import { type Address, type Hex, PERMIT2, Unavailable } from "turnpike/protocol";
import { coalesce } from "../lib/coalesce";
import type { BlockTag, ChainReader } from "./chain-reader";

export interface AccountQuery {
  readonly token: Address;
  readonly payer: Address;
  readonly nonce: Hex;
  /** whether the nonce is one of Permit2, and none of the token */
  readonly isPermit2: boolean;
  /** block at which the balance is read; everything else is read at the newest block */
  readonly balanceAtBlock: number;
}

export type NonceQuery = Omit<AccountQuery, "balanceAtBlock">;

export interface AccountFacts {
  readonly hasCode: boolean;
  /** true also after a cancellation */
  readonly isNonceUsed: boolean;
  readonly balance: bigint;
}

export interface FundsQuery {
  readonly token: Address;
  readonly payer: Address;
  readonly spender: Address;
}

/** A payer's balance, and how much of it the spender may transfer. */
export interface Funds {
  readonly balance: bigint;
  readonly approval: bigint;
}

export interface AccountReads {
  /** @throws Unavailable when no node answers, or a token's answer is malformed */
  facts(query: AccountQuery): Promise<AccountFacts>;
  /** Returns balances and allowances in the order of the queries. @throws Unavailable as `facts` does */
  funds(queries: readonly FundsQuery[]): Promise<Funds[]>;
}

/** authorizationState(address,bytes32) and balanceOf(address) */
const AUTHORIZATION_STATE = "e94a0102";

/** nonceBitmap(address,uint256) */
const NONCE_BITMAP = "4fe02b44";

const BALANCE_OF = "70a08231";

/** allowance(address,address) */
const ALLOWANCE = "dd62ed3e";

/** A creation call may not return more than a contract may hold: 24,576 bytes. */
const MAX_TOGETHER = 100;

const MAX_PARALLEL = 4;

/** Short compared with a block, and payments that are judged together are bound together. */
const GATHER_MS = 25;

export interface StaticCall {
  /** the contract that is called */
  readonly token: Address;
  readonly payer: Address;
  /** 68 bytes, without 0x */
  readonly data: string;
}

interface Answered {
  readonly hasCode: boolean;
  /** undefined when the call failed or answered with less than a word */
  readonly word: bigint | undefined;
}

/**
 * For each item (target, account, 68 bytes of calldata: 160 bytes) writes three words: the account's code size, whether
 * the static call returned a word, and that word. A test compares it with single calls.
 */
const PROGRAM = assemble([
  // size = length of the list after the program, copied to memory 0; out = size, item = 0
  "61",
  "LENGTH",
  "38",
  "03",
  "80",
  "61",
  "LENGTH",
  "6000",
  "39",
  "80",
  "6000",
  "LOOP:",
  "5b",
  // until item reaches size
  "82",
  "81",
  "10",
  "15",
  "61",
  "END",
  "57",
  // mem[out] = extcodesize(mem[item + 32])
  "80",
  "6020",
  "01",
  "51",
  "3b",
  "82",
  "52",
  // staticcall(gas, mem[item], item + 64, 68, out + 64, 32)
  "6020",
  "82",
  "6040",
  "01",
  "6044",
  "83",
  "6040",
  "01",
  "84",
  "51",
  "5a",
  "fa",
  // mem[out + 32] = the call succeeded and returned a word
  "601f",
  "3d",
  "11",
  "16",
  "82",
  "6020",
  "01",
  "52",
  // item += 160; out += 96
  "60a0",
  "01",
  "90",
  "6060",
  "01",
  "90",
  "61",
  "LOOP",
  "56",
  // return the memory from size to out
  "END:",
  "5b",
  "50",
  "81",
  "90",
  "03",
  "90",
  "f3",
]);

/** Assembles the program. Labels take two bytes; LENGTH is the program's length. */
function assemble(parts: readonly string[]): string {
  const places = new Map<string, number>();
  let length = 0;
  for (const part of parts) {
    if (part.endsWith(":")) places.set(part.slice(0, -1), length);
    else length += /^[A-Z]+$/.test(part) ? 2 : part.length / 2;
  }
  places.set("LENGTH", length);
  const place = (name: string): string => (places.get(name) ?? 0).toString(16).padStart(4, "0");
  return parts.map((part) => (part.endsWith(":") ? "" : /^[A-Z]+$/.test(part) ? place(part) : part)).join("");
}

const addressWord = (address: Address): string => address.slice(2).toLowerCase().padStart(64, "0");

/** The call that returns whether a nonce is used: the token's own, or the word of Permit2's bitmap. */
export function nonceCall({ token, payer, nonce, isPermit2 }: NonceQuery): StaticCall {
  if (!isPermit2) return { token, payer, data: AUTHORIZATION_STATE + addressWord(payer) + nonce.slice(2) };
  const word = (BigInt(nonce) >> 8n).toString(16).padStart(64, "0");
  return { token: PERMIT2, payer, data: NONCE_BITMAP + addressWord(payer) + word };
}

/** Returns whether the answer of `nonceCall` says that the nonce is used. */
export function isUsed({ nonce, isPermit2 }: NonceQuery, answer: bigint): boolean {
  return isPermit2 ? ((answer >> (BigInt(nonce) & 0xffn)) & 1n) === 1n : answer !== 0n;
}

export function createAccountReads(chain: ChainReader): AccountReads {
  async function callAll(calls: readonly StaticCall[], block: BlockTag): Promise<Answered[]> {
    const list = calls.map(({ token, payer, data }) => addressWord(token) + addressWord(payer) + data.padEnd(192, "0"));
    const answer = await chain.call({ data: `0x${PROGRAM}${list.join("")}`, block });
    const digits = answer.data.slice(2);
    if (answer.kind !== "ok" || digits.length !== calls.length * 192)
      return Promise.all(calls.map((one) => callOne(one, block)));
    return calls.map((_, place) => {
      const words = digits.slice(place * 192, place * 192 + 192);
      const hasAnswered = BigInt(`0x${words.slice(64, 128)}`) === 1n;
      return {
        hasCode: !/^0*$/.test(words.slice(0, 64)),
        word: hasAnswered ? BigInt(`0x${words.slice(128)}`) : undefined,
      };
    });
  }

  /** Fallback for nodes that do not run creation calls. */
  async function callOne({ token, payer, data }: StaticCall, block: BlockTag): Promise<Answered> {
    const [code, answer] = await Promise.all([chain.code(payer), chain.call({ to: token, data: `0x${data}`, block })]);
    const hasAnswered = answer.kind === "ok" && answer.data.length >= 66;
    return { hasCode: code !== "0x", word: hasAnswered ? BigInt(answer.data.slice(0, 66)) : undefined };
  }

  const facts = coalesce<AccountQuery, AccountFacts>({
    maxItems: MAX_TOGETHER,
    maxParallel: MAX_PARALLEL,
    gatherMs: () => GATHER_MS,
    async run(queries) {
      const blocks = [...new Set(queries.map(({ balanceAtBlock }) => balanceAtBlock))];
      const [states, ...balances] = await Promise.all([
        callAll(queries.map(nonceCall), "latest"),
        ...blocks.map((block) =>
          callAll(
            queries.map(({ token, payer }) => ({
              token,
              payer,
              data: (BALANCE_OF + addressWord(payer)).padEnd(136, "0"),
            })),
            block < 0 ? "latest" : block,
          ),
        ),
      ]);
      return queries.map(({ balanceAtBlock }, place) => {
        const state = states[place];
        const balance = balances[blocks.indexOf(balanceAtBlock)]?.[place];
        if (state?.word === undefined || balance?.word === undefined)
          throw new Unavailable("a token's answer about a payer is malformed", { retryAfterSec: 2 });
        const isNonceUsed = isUsed(queries[place] as AccountQuery, state.word);
        return { hasCode: state.hasCode, isNonceUsed, balance: balance.word };
      });
    },
  });

  async function funds(queries: readonly FundsQuery[]): Promise<Funds[]> {
    const found: Funds[] = [];
    for (let start = 0; start < queries.length; start += MAX_TOGETHER / 2) {
      const some = queries.slice(start, start + MAX_TOGETHER / 2);
      const calls = some.flatMap(({ token, payer, spender }): StaticCall[] => [
        { token, payer, data: (BALANCE_OF + addressWord(payer)).padEnd(136, "0") },
        { token, payer, data: ALLOWANCE + addressWord(payer) + addressWord(spender) },
      ]);
      const words = (await callAll(calls, "latest")).map(({ word }) => word);
      for (let place = 0; place < words.length; place += 2) {
        const [balance, approval] = words.slice(place, place + 2);
        if (balance === undefined || approval === undefined)
          throw new Unavailable("a token's answer about a payer is malformed", { retryAfterSec: 2 });
        found.push({ balance, approval });
      }
    }
    return found;
  }

  return { facts, funds };
}
