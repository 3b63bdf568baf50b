/**
 * Computes Keccak-256, which every id and signature of this project uses. Servers hash in WebAssembly, eight times as
 * fast as the library. Browsers hash with the library, because a content security policy may forbid WebAssembly. The
 * tests compare both.
 */
import { keccak_256 } from "@noble/hashes/sha3";
import { type Permutation, permutationInWasm } from "./keccak-wasm";

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
