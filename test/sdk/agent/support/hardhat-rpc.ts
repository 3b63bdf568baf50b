import { network } from "hardhat";
import { type StandIn, serve } from "./servers";

/** Hardhat's chain over HTTP, as a node serves it. */
export const startRpc = (
  edit: (method: string, result: unknown) => unknown = (_, result) => result,
): Promise<StandIn> =>
  serve(async ({ body }) => {
    const { id, method, params } = JSON.parse(body) as { id: number; method: string; params: unknown[] };
    return {
      status: 200,
      json: { jsonrpc: "2.0", id, result: edit(method, await network.provider.send(method, params)) },
    };
  });
