/** What nodes do wrong, by the group of questions that it befalls. Lies draw from the generator that they are given. */
import { id, Transaction } from "ethers";
import type { Fault, RpcCall } from "./rpc";

export type Random = (below: number) => number;

/** A small deterministic generator, so that a run can be had again by its seed. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0 || 1;
  return (below) => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state % below;
  };
}

const isLatest = ({ method, params }: RpcCall): boolean => method === "eth_getBlockByNumber" && params[0] === "latest";
const of =
  (method: string) =>
  (call: RpcCall): boolean =>
    call.method === method;

export const GROUPS = {
  chain: of("eth_chainId"),
  head: isLatest,
  block: (call: RpcCall) => call.method === "eth_getBlockByNumber" && !isLatest(call),
  logs: of("eth_getLogs"),
  receipt: of("eth_getTransactionReceipt"),
  nonce: of("eth_getTransactionCount"),
  balance: of("eth_getBalance"),
  code: of("eth_getCode"),
  call: of("eth_call"),
  broadcast: of("eth_sendRawTransaction"),
} as const satisfies Record<string, (call: RpcCall) => boolean>;
export type Group = keyof typeof GROUPS;

/** An honest node is quicker than this, also on a busy machine. */
export const RPC_TIMEOUT_MS = 4_000;

/** What any node, load balancer or network does to any question. */
const OUTAGES: Record<string, Fault["act"]> = {
  late: { kind: "delay", ms: 120 },
  "too late": { kind: "delay", ms: RPC_TIMEOUT_MS * 1.5 },
  "lost on the way": { kind: "drop", when: "before" },
  "lost on the way back": { kind: "drop", when: "after" },
  "429": { kind: "http", status: 429, body: "slow down" },
  "503": { kind: "http", status: 503, body: "<html>no backend</html>" },
  garbage: { kind: "http", status: 200, body: '{"jsonrpc":"2.0","id":0,"resu' },
  "another shape": { kind: "http", status: 200, body: "null" },
  null: { kind: "swallow", respond: () => null },
  "an error": { kind: "error", code: -32_000, message: "header not found", delivered: false },
  "an error after the deed": { kind: "error", code: -32_000, message: "internal error", delivered: true },
  "limit exceeded": { kind: "error", code: -32_005, message: "limit exceeded", delivered: false },
};

type Respond = Extract<Fault["act"], { kind: "lie" }>["respond"];
type Fields = Record<string, unknown>;
const quantity = (value: number | bigint): string => `0x${value.toString(16)}`;
const DAY_SEC = 86_400;
/** selector of the settler's `settle` */
const SETTLE = "0x8d6ee4ff";

/** What a faulty or hostile node says about one matter, while it is honest about the others. */
function liesOf(random: Random): Partial<Record<Group, Record<string, Fault["act"]>>> {
  const hash = (): string =>
    `0x${Array.from({ length: 8 }, () =>
      random(2 ** 31)
        .toString(16)
        .padStart(8, "0"),
    ).join("")}`;
  const word = (value: number | bigint): string => value.toString(16).padStart(64, "0");
  const lie = (respond: Respond) => ({ kind: "lie", respond }) as const;
  const changed = (honest: unknown, fields: Fields): unknown =>
    honest === null ? null : { ...(honest as Fields), ...fields };
  const numberOf = (honest: unknown): number => Number((honest as { number: string } | null)?.number ?? 0);
  let frozen: unknown;

  /** The node keeps transactions to itself, and invents the logs that they would have left. */
  const kept: string[] = [];
  const inventedLogs: Respond = async (call, honest, ask) => {
    if (GROUPS.broadcast(call)) {
      const transaction = Transaction.from(String(call.params[0]));
      kept.push(transaction.data);
      return transaction.hash;
    }
    const { blockHash, address } = call.params[0] as { blockHash?: string; address?: string[] };
    if (!blockHash) return honest;
    const block = (await ask("eth_getBlockByHash", [blockHash, false])) as { number: string };
    const base = {
      address: address?.at(-1),
      blockHash,
      blockNumber: block.number,
      transactionHash: hash(),
      transactionIndex: "0x0",
      removed: false,
    };
    const pairs = kept.flatMap(authorizationsIn).map(({ from, to, value, nonce }, place) => [
      {
        ...base,
        logIndex: quantity(500 + place * 2),
        data: "0x",
        topics: [id("AuthorizationUsed(address,bytes32)"), from, nonce],
      },
      {
        ...base,
        logIndex: quantity(501 + place * 2),
        data: value,
        topics: [id("Transfer(address,address,uint256)"), from, to],
      },
    ]);
    return [...(honest as unknown[]), ...pairs.flat()];
  };

  return {
    chain: { "another chain": lie(() => "0x1") },
    head: {
      "far ahead": lie((_, honest) =>
        changed(honest, {
          number: quantity(numberOf(honest) + 1_000),
          timestamp: quantity(Number((honest as Fields).timestamp) + DAY_SEC),
          hash: hash(),
        }),
      ),
      "ahead of its time": lie((_, honest) =>
        changed(honest, { number: quantity(numberOf(honest) + 40), hash: hash() }),
      ),
      stops: lie((_, honest) => {
        frozen ??= honest;
        return frozen;
      }),
      "another block": lie((_, honest) => changed(honest, { hash: hash(), parentHash: hash() })),
      "years ago": lie((_, honest) => changed(honest, { timestamp: "0x5f5e100", number: "0x1", hash: hash() })),
    },
    block: {
      "another block": lie((_, honest) => changed(honest, { hash: hash() })),
      "another parent": lie((_, honest) => changed(honest, { parentHash: hash() })),
      "another height": lie((_, honest) => changed(honest, { number: quantity(numberOf(honest) + 1) })),
      "no such block": lie(() => null),
    },
    logs: {
      none: lie(() => []),
      invented: { ...lie(inventedLogs), withholds: GROUPS.broadcast },
      "of another block": lie((_, honest) => (honest as Fields[]).map((log) => ({ ...log, blockHash: hash() }))),
      "another transaction's": lie((_, honest) =>
        (honest as Fields[]).map((log) => ({ ...log, transactionHash: hash() })),
      ),
      "larger amounts": lie((_, honest) =>
        (honest as Fields[]).map((log) => ({ ...log, data: log.data === "0x" ? "0x" : `0x${word(10n ** 12n)}` })),
      ),
    },
    receipt: {
      none: lie(() => null),
      "in a block to come": lie((_, honest) =>
        changed(honest, { blockNumber: quantity(10 ** 9), blockHash: hash(), logs: [] }),
      ),
      "in another block": lie((_, honest) => changed(honest, { blockHash: hash() })),
      "another's": lie((_, honest) => changed(honest, { transactionHash: hash(), logs: [] })),
      failed: lie((_, honest) => changed(honest, { status: "0x0", logs: [] })),
    },
    nonce: {
      ahead: lie((_, honest) => quantity(Number(honest) + 5)),
      "never used": lie(() => "0x0"),
    },
    balance: { "nothing left": lie(() => "0x0") },
    code: { none: lie(() => "0x"), some: lie(() => "0x6001") },
    call: {
      zero: lie(() => `0x${word(0)}`),
      "yes to all": lie(() => `0x${word(1)}`),
      "no data": lie(() => "0x"),
      riches: lie(() => `0x${word(2n ** 255n)}`),
    },
    broadcast: {
      swallowed: { kind: "swallow", respond: hash },
      "nonce too low": { kind: "error", code: -32_000, message: "nonce too low", delivered: true },
      "already known": { kind: "error", code: -32_000, message: "already known", delivered: true },
    },
  };
}

/** The words of the authorizations in calldata to a token, or to the settler of many. */
function authorizationsIn(data: string): { from: string; to: string; value: string; nonce: string }[] {
  const words = data.slice(10).match(/.{64}/g) ?? [];
  const at = (start: number) => ({
    from: `0x${words[start]}`,
    to: `0x${words[start + 1]}`,
    value: `0x${words[start + 2]}`,
    nonce: `0x${words[start + 5]}`,
  });
  if (!data.startsWith(SETTLE)) return [at(0)];
  // Offset of the list, gas of an item, length; then where each item begins, and an item begins with its token.
  const [, , length] = words;
  return Array.from({ length: Number(`0x${length}`) }, (_, place) => at(3 + Number(`0x${words[3 + place]}`) / 32 + 1));
}

/** Every fault there is, each for one group of questions. */
export function allFaults(random: Random): Fault[] {
  const lies = liesOf(random);
  return (Object.keys(GROUPS) as Group[]).flatMap((group) =>
    Object.entries({ ...OUTAGES, ...lies[group] }).map(([what, act]) => ({
      name: `${group}: ${what}`,
      strikes: (call: RpcCall) => GROUPS[group](call) || (act.kind === "lie" && act.withholds?.(call) === true),
      act,
    })),
  );
}

/** What makes a node know no block above `limit.to`, also when it is changed. */
export const lagging = (limit: { readonly to: number }): Fault[] => [
  {
    name: "head",
    strikes: GROUPS.head,
    act: {
      kind: "lie",
      respond: (_, honest, ask) =>
        Number((honest as { number: string }).number) <= limit.to
          ? honest
          : ask("eth_getBlockByNumber", [quantity(limit.to), false]),
    },
  },
  {
    name: "height",
    strikes: of("eth_blockNumber"),
    act: { kind: "lie", respond: (_, honest) => quantity(Math.min(Number(honest), limit.to)) },
  },
  {
    name: "blocks",
    strikes: GROUPS.block,
    act: { kind: "lie", respond: ({ params }, honest) => (Number(params[0]) > limit.to ? null : honest) },
  },
];

export const isLie = ({ act, name }: Fault): boolean =>
  act.kind === "lie" || name === "broadcast: swallowed" || name.startsWith("broadcast: nonce");

/** In an order of chance. */
export function shuffled<T>(all: readonly T[], random: Random): T[] {
  const left = [...all];
  return all.map(() => left.splice(random(left.length), 1)[0] as T);
}
