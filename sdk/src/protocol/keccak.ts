/**
 * Computes Keccak-256, which every id and signature of this project uses. Servers hash in WebAssembly, eight times as
 * fast as the library. Browsers hash with the library, because a content security policy may forbid WebAssembly. The
 * tests compare both.
 */
import { keccak_256 } from "@noble/hashes/sha3";

/** Hashes to 32 bytes. */
type Hash = (bytes: Uint8Array) => Uint8Array;

const RATE_BYTES = 136;

const RATE_WORDS = RATE_BYTES / 4;

export const portableKeccak256: Hash = (bytes) => keccak_256(bytes);

/** @returns undefined where there is no WebAssembly, or it does not return what the library returns */
export function fastKeccak256(): Hash | undefined {
  const permutation = permutationInWasm();
  const fast = permutation && spongeOn(permutation);
  // Two blocks, the second one not full.
  const input = new Uint8Array(200).fill(1);
  const expected = portableKeccak256(input);
  return fast?.(input).every((byte, index) => byte === expected[index]) ? fast : undefined;
}

/** Builds the sponge over one permutation, whose state it resets for each input. */
function spongeOn({ state, permute }: Permutation): Hash {
  return (bytes) => {
    state.fill(0);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
    let at = 0;
    for (; at + RATE_BYTES <= bytes.length; at += RATE_BYTES) {
      for (let i = 0; i < RATE_WORDS; i++) state[i] = (state[i] as number) ^ view.getInt32(at + i * 4, true);
      permute();
    }
    for (let i = at; i < bytes.length; i++) {
      const into = (i - at) >> 2;
      state[into] = (state[into] as number) ^ ((bytes[i] as number) << (((i - at) & 3) * 8));
    }
    // Padding as Keccak had it before SHA-3: a one bit after the message, and one at the block's end.
    const end = bytes.length - at;
    state[end >> 2] = (state[end >> 2] as number) ^ (1 << ((end & 3) * 8));
    state[RATE_WORDS - 1] = (state[RATE_WORDS - 1] as number) ^ 0x80000000;
    permute();
    const out = new Uint8Array(32);
    const written = new DataView(out.buffer);
    for (let i = 0; i < 8; i++) written.setInt32(i * 4, state[i] as number, true);
    return out;
  };
}

const isServer = (globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node !== undefined;

let hash: Hash | undefined;

/** @returns 32 bytes */
export function keccak256Of(bytes: Uint8Array): Uint8Array {
  hash ??= (isServer ? fastKeccak256() : undefined) ?? portableKeccak256;
  return hash(bytes);
}

/** Turns the state over once: 25 words of 64 bits, as 50 of 32. */
interface Permutation {
  readonly state: Int32Array;
  permute(): void;
}

interface WebAssemblyLike {
  readonly Module: new (bytes: Uint8Array) => object;
  readonly Instance: new (
    module: object,
  ) => { readonly exports: { readonly memory: { readonly buffer: ArrayBuffer }; readonly permute: () => void } };
}

const WORDS = 25;

const ROUNDS = 24;

const ROUNDS_AT = 256;

// Locals: the state, its five column parities, one number, the state turned about, and the loop's position.
const A = 0;

const C = 25;

const D = 30;

const B = 31;

const ROUND = 56;

const I32 = 0x7f;

const I64 = 0x7e;

const VOID = 0x40;

const OP = {
  loop: 0x03,
  end: 0x0b,
  branchIf: 0x0d,
  get: 0x20,
  set: 0x21,
  load: 0x29,
  store: 0x37,
  const32: 0x41,
  const64: 0x42,
  less: 0x49,
  add: 0x6a,
  and: 0x83,
  xor: 0x85,
  rotateLeft: 0x89,
} as const;

/** Unsigned LEB128. */
function number(value: number): number[] {
  return value < 0x80 ? [value] : [(value & 0x7f) | 0x80, ...number(value >>> 7)];
}

/** Signed LEB128 of what is not negative: one bit more, for the sign. */
function signed(value: number): number[] {
  return value < 0x40 ? [value] : [(value & 0x7f) | 0x80, ...signed(value >>> 7)];
}

const get = (local: number): number[] => [OP.get, ...number(local)];

const set = (local: number): number[] => [OP.set, ...number(local)];

const rotated = (local: number, by: number): number[] => [...get(local), OP.const64, ...signed(by), OP.rotateLeft];

const at = (word: number): number[] => [3, ...number(word * 8)];

const each = (write: (index: number) => number[], count = WORDS): number[] =>
  Array.from({ length: count }, (_, index) => write(index)).flat();

/** By how much each word is rotated, and where it goes: the walk of rho and pi. */
function walk(): { readonly from: number; readonly to: number; readonly by: number }[] {
  const steps = [{ from: 0, to: 0, by: 0 }];
  let [x, y] = [1, 0];
  for (let t = 0; t < WORDS - 1; t++) {
    const to = { x: y, y: (2 * x + 3 * y) % 5 };
    steps.push({ from: x + 5 * y, to: to.x + 5 * to.y, by: (((t + 1) * (t + 2)) / 2) % 64 });
    ({ x, y } = to);
  }
  return steps;
}

function round(): number[] {
  const parity = (x: number) => [
    ...get(A + x),
    ...[5, 10, 15, 20].flatMap((row) => [...get(A + x + row), OP.xor]),
    ...set(C + x),
  ];
  const mix = (x: number) => [
    ...[...get(C + ((x + 4) % 5)), ...rotated(C + ((x + 1) % 5), 1), OP.xor, ...set(D)],
    ...[0, 5, 10, 15, 20].flatMap((row) => [...get(A + x + row), ...get(D), OP.xor, ...set(A + x + row)]),
  ];
  const turn = walk().flatMap(({ from, to, by }) => [...rotated(A + from, by), ...set(B + to)]);
  const combine = (word: number) => {
    const row = word - (word % 5);
    const next = (step: number) => get(B + row + ((word + step) % 5));
    // b ^ (~b1 & b2)
    return [...get(B + word), ...next(1), OP.const64, 0x7f, OP.xor, ...next(2), OP.and, OP.xor, ...set(A + word)];
  };
  const constant = [...get(A), ...get(ROUND), OP.load, 3, ...number(ROUNDS_AT), OP.xor, ...set(A)];
  return [...each(parity, 5), ...each(mix, 5), ...turn, ...each(combine), ...constant];
}

function program(): Uint8Array {
  const body = [
    ...each((word) => [OP.const32, 0, OP.load, ...at(word), ...set(A + word)]),
    ...[OP.loop, VOID],
    ...round(),
    ...[...get(ROUND), OP.const32, 8, OP.add, ...set(ROUND)],
    ...[...get(ROUND), OP.const32, ...signed(ROUNDS * 8), OP.less, OP.branchIf, 0, OP.end],
    ...each((word) => [OP.const32, 0, ...get(A + word), OP.store, ...at(word)]),
    OP.end,
  ];
  const code = [2, ...number(ROUND), I64, 1, I32, ...body];
  const section = (id: number, content: number[]) => [id, ...number(content.length), ...content];
  const name = (text: string) => [text.length, ...[...text].map((character) => character.charCodeAt(0))];
  return Uint8Array.from([
    ...[0, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, 0, 0]),
    ...section(3, [1, 0]),
    ...section(5, [1, 0, 1]),
    ...section(7, [2, ...name("memory"), 2, 0, ...name("permute"), 0, 0]),
    ...section(10, [1, ...number(code.length), ...code]),
  ]);
}

/** The round constants, 64 bits each: the bits of a linear feedback shift register, at places 2^j - 1. */
function roundConstants(): bigint[] {
  let register = 1n;
  return Array.from({ length: ROUNDS }, () => {
    let constant = 0n;
    for (let j = 0; j < 7; j++) {
      register = ((register << 1n) ^ ((register >> 7n) * 0x71n)) & 0xffn;
      if (register & 2n) constant ^= 1n << ((1n << BigInt(j)) - 1n);
    }
    return constant;
  });
}

/**
 * Builds the permutation in WebAssembly, whose 64-bit words the engine has registers for. The module is written here
 * instruction by instruction, so that it can be read; platforms that forbid code made at run time do without it.
 * @returns undefined where the platform has no WebAssembly, or forbids it
 */
function permutationInWasm(): Permutation | undefined {
  try {
    const { Module, Instance } = (globalThis as unknown as { WebAssembly: WebAssemblyLike }).WebAssembly;
    const { memory, permute } = new Instance(new Module(program())).exports;
    new BigUint64Array(memory.buffer, ROUNDS_AT, ROUNDS).set(roundConstants());
    return { state: new Int32Array(memory.buffer, 0, WORDS * 2), permute };
  } catch {
    // A content security policy, or a runtime that compiles nothing: the library does.
    return undefined;
  }
}
