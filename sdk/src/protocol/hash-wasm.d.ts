/** The one hash of hash-wasm that is used, in a file of its own: the whole library is twenty times as large. */
declare module "hash-wasm/dist/keccak.umd.min.js" {
  const library: Pick<typeof import("hash-wasm"), "createKeccak">;
  export default library;
}
