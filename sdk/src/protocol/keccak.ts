/**
 * Computes Keccak-256, which every id and signature of this project uses. Its permutation is WebAssembly on servers and
 * JavaScript in browsers, whose content security policies may forbid WebAssembly. The tests compare both.
 */
import { permutePortably, ROUNDS } from "./keccak-portable";
import { type Permutation, permutationInWasm } from "./keccak-wasm";

const RATE_BYTES = 136;

const RATE_WORDS = RATE_BYTES / 4;

const WORDS = 50;

export function portablePermutation(): Permutation {
  const state = new Int32Array(WORDS);
  return { state, permute: () => permutePortably(state) };
}

/** @returns undefined where there is no WebAssembly, or it does not do what the portable permutation does */
export function fastPermutation(): Permutation | undefined {
  const fast = permutationInWasm(ROUNDS);
  const portable = portablePermutation();
  for (const each of [fast, portable]) {
    each?.state.fill(1);
    each?.permute();
  }
  return fast?.state.every((word, index) => word === portable.state[index]) ? fast : undefined;
}

/**
 * Builds the sponge over one permutation, whose state it resets for each input.
 * @returns a function that hashes to 32 bytes
 */
export function keccak256On({ state, permute }: Permutation): (bytes: Uint8Array) => Uint8Array {
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

let hash: ((bytes: Uint8Array) => Uint8Array) | undefined;

/** @returns 32 bytes */
export function keccak256Of(bytes: Uint8Array): Uint8Array {
  hash ??= keccak256On((isServer ? fastPermutation() : undefined) ?? portablePermutation());
  return hash(bytes);
}
