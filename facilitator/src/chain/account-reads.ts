/**
 * Reads token state of many payers in one call: whether they have code, whether a nonce is used, their balances. Sends
 * a contract-creation call that runs AccountLens. It works on every chain, and needs no deployed contract.
 * @see contracts/AccountLens.sol
 */
import { type Address, type Hex, PERMIT2, Unavailable } from "turnpike/protocol";
import { coalesce } from "../lib/coalesce";
import type { BlockTag, ChainReader } from "./chain-reader";
import { accountLens } from "./contract-code.json";

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

/** authorizationState(address,bytes32) */
const AUTHORIZATION_STATE = "e94a0102";

/** nonceBitmap(address,uint256) of Permit2 */
const NONCE_BITMAP = "4fe02b44";

/** balanceOf(address) */
const BALANCE_OF = "70a08231";

/** allowance(address,address) */
const ALLOWANCE = "dd62ed3e";

/** AccountLens bounds the gas of each query for as many. */
const MAX_TOGETHER = 100;

const MAX_PARALLEL = 4;

/** Short compared with a block, and payments that are judged together are bound together. */
const GATHER_MS = 25;

interface StaticCall {
  readonly token: Address;
  readonly payer: Address;
  /** 4 bytes, without 0x */
  readonly selector: string;
  /** 32 bytes, without 0x: the second argument; a view with one argument ignores it */
  readonly argument: string;
}

interface Answered {
  readonly hasCode: boolean;
  /** undefined when the call failed or answered with less than a word */
  readonly word: bigint | undefined;
}

const addressWord = (address: Address): string => address.slice(2).toLowerCase().padStart(64, "0");

const numberWord = (value: number): string => value.toString(16).padStart(64, "0");

const NO_ARGUMENT = numberWord(0);

const WORD_DIGITS = 64;

/** An ABI-encoded array begins with its offset and its length. */
const ARRAY_HEAD_WORDS = 2;

const ARRAY_OFFSET = numberWord(32);

/** code size, whether the token answered, its answer */
const ANSWER_WORDS = 3;

const calldataOf = ({ payer, selector, argument }: StaticCall): Hex => `0x${selector}${addressWord(payer)}${argument}`;

/** ABI-encodes the constructor's argument word by word: a general encoder takes 10 ms for 100 queries. */
function encodeQueries(calls: readonly StaticCall[]): string {
  const queries = calls.map(
    ({ token, payer, selector, argument }) =>
      addressWord(token) + addressWord(payer) + selector.padEnd(WORD_DIGITS, "0") + argument,
  );
  return ARRAY_OFFSET + numberWord(calls.length) + queries.join("");
}

/** @returns undefined when `data` is no list of `count` answers */
function decodeAnswers(data: Hex, count: number): Answered[] | undefined {
  if (data.length !== 2 + (ARRAY_HEAD_WORDS + count * ANSWER_WORDS) * WORD_DIGITS) return undefined;
  const wordAt = (index: number): bigint => {
    const start = 2 + (ARRAY_HEAD_WORDS + index) * WORD_DIGITS;
    return BigInt(`0x${data.slice(start, start + WORD_DIGITS)}`);
  };
  return Array.from({ length: count }, (_, place) => {
    const first = place * ANSWER_WORDS;
    return { hasCode: wordAt(first) !== 0n, word: wordAt(first + 1) === 1n ? wordAt(first + 2) : undefined };
  });
}

const malformed = (): Unavailable =>
  new Unavailable("a token's answer about a payer is malformed", { retryAfterSec: 2 });

function nonceCall({ token, payer, nonce, isPermit2 }: NonceQuery): StaticCall {
  if (!isPermit2) return { token, payer, selector: AUTHORIZATION_STATE, argument: nonce.slice(2) };
  const word = (BigInt(nonce) >> 8n).toString(16).padStart(WORD_DIGITS, "0");
  return { token: PERMIT2, payer, selector: NONCE_BITMAP, argument: word };
}

/** The call that returns whether a nonce is used: of the token itself, or of Permit2 for a word of its bitmap. */
export function nonceCallOf(query: NonceQuery): { readonly to: Address; readonly data: Hex } {
  const call = nonceCall(query);
  return { to: call.token, data: calldataOf(call) };
}

/** Returns whether the answer of `nonceCallOf` says that the nonce is used. */
export function isUsed({ nonce, isPermit2 }: NonceQuery, answer: bigint): boolean {
  return isPermit2 ? ((answer >> (BigInt(nonce) & 0xffn)) & 1n) === 1n : answer !== 0n;
}

export function createAccountReads(chain: ChainReader): AccountReads {
  async function callAll(calls: readonly StaticCall[], block: BlockTag): Promise<Answered[]> {
    const data: Hex = `0x${accountLens.creationCode.slice(2)}${encodeQueries(calls)}`;
    const answer = await chain.call({ data, block });
    const answers = answer.kind === "ok" ? decodeAnswers(answer.data, calls.length) : undefined;
    return answers ?? Promise.all(calls.map((one) => callOne(one, block)));
  }

  /** Fallback for nodes that do not run creation calls. */
  async function callOne(call: StaticCall, block: BlockTag): Promise<Answered> {
    const { token: to, payer } = call;
    const [code, answer] = await Promise.all([chain.code(payer), chain.call({ to, data: calldataOf(call), block })]);
    const hasAnswered = answer.kind === "ok" && answer.data.length >= 66;
    return { hasCode: code !== "0x", word: hasAnswered ? BigInt(answer.data.slice(0, 66)) : undefined };
  }

  const factsOrNone = coalesce<AccountQuery, AccountFacts | undefined>({
    maxItems: MAX_TOGETHER,
    maxParallel: MAX_PARALLEL,
    gatherMs: () => GATHER_MS,
    async run(queries) {
      const blocks = [...new Set(queries.map(({ balanceAtBlock }) => balanceAtBlock))];
      const [states, ...balances] = await Promise.all([
        callAll(queries.map(nonceCall), "latest"),
        ...blocks.map((block) =>
          callAll(
            queries.map(({ token, payer }) => ({ token, payer, selector: BALANCE_OF, argument: NO_ARGUMENT })),
            block < 0 ? "latest" : block,
          ),
        ),
      ]);
      return queries.map((query, place) => {
        const state = states[place];
        const balance = balances[blocks.indexOf(query.balanceAtBlock)]?.[place];
        // Another token's queries in the batch keep their answers.
        if (state?.word === undefined || balance?.word === undefined) return undefined;
        return { hasCode: state.hasCode, isNonceUsed: isUsed(query, state.word), balance: balance.word };
      });
    },
  });

  async function facts(query: AccountQuery): Promise<AccountFacts> {
    const found = await factsOrNone(query);
    if (!found) throw malformed();
    return found;
  }

  async function funds(queries: readonly FundsQuery[]): Promise<Funds[]> {
    const found: Funds[] = [];
    for (let start = 0; start < queries.length; start += MAX_TOGETHER / 2) {
      const some = queries.slice(start, start + MAX_TOGETHER / 2);
      const calls = some.flatMap(({ token, payer, spender }): StaticCall[] => [
        { token, payer, selector: BALANCE_OF, argument: NO_ARGUMENT },
        { token, payer, selector: ALLOWANCE, argument: addressWord(spender) },
      ]);
      const words = (await callAll(calls, "latest")).map(({ word }) => word);
      for (let place = 0; place < words.length; place += 2) {
        const [balance, approval] = words.slice(place, place + 2);
        if (balance === undefined || approval === undefined) throw malformed();
        found.push({ balance, approval });
      }
    }
    return found;
  }

  return { facts, funds };
}
