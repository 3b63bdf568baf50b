/**
 * Computes Keccak-256, which every id and signature of this project uses. Servers hash in WebAssembly, eight times as
 * fast as the portable library, once it is compiled. Browsers hash with the portable one, because a content security
 * policy may forbid WebAssembly: `browser` in package.json leaves hash-wasm out of bundles. The tests compare both.
 */
/// <reference path="./hash-wasm.d.ts" />
import { keccak_256 } from "@noble/hashes/sha3";
import hashWasm from "hash-wasm/dist/keccak.umd.min.js";

type Hash = (bytes: Uint8Array) => Uint8Array;

export const portableKeccak256: Hash = (bytes) => keccak_256(bytes);

/** @returns undefined where there is no WebAssembly, or making code at run time is forbidden */
export async function fastKeccak256(): Promise<Hash | undefined> {
  try {
    const hasher = await hashWasm.createKeccak(256);
    return (bytes) => hasher.init().update(bytes).digest("binary");
  } catch {
    return undefined;
  }
}

const isServer = (globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node !== undefined;

let hash: Hash | undefined;

/** @returns 32 bytes */
export function keccak256Of(bytes: Uint8Array): Uint8Array {
  if (!hash) {
    hash = portableKeccak256;
    if (isServer) void fastKeccak256().then((fast = portableKeccak256) => (hash = fast));
  }
  return hash(bytes);
}
