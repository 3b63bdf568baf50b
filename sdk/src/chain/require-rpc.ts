import { callback, fieldsOf } from "../protocol/arguments";

/** @throws ConfigError for what cannot send calls to a chain */
export function requireRpc(rpc: { readonly send: unknown }, field = "rpc"): void {
  callback(fieldsOf(rpc, field).send, `${field}.send`);
}
