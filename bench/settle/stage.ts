/** Starts what a load on payments needs, each part as its own process: chain, RPC proxy, PostgreSQL, Facilitator. */
import { Client } from "pg";
import type { Address } from "turnpike/protocol";
import { type LoadChain, startLoadChain } from "./chain";
import { type LoadedFacilitator, startLoadedFacilitator } from "./facilitator";
import type { Endpoint, PayloadTerms } from "./payloads";
import { type Helper, parentOf, startHelper } from "./process";
import type { ProxyAnswer, ProxyAsk } from "./rpc-proxy";

/** base units of a payment */
export const AMOUNT = 1_000n;
/** base units that each payer has */
export const FUNDS = 10n ** 12n;
/** Payments can be sent that long after they were signed. */
const VALID_SEC = 900;

export type Blocks = "each second" | "at once";

export interface Stage {
  readonly chain: LoadChain;
  readonly facilitator: LoadedFacilitator;
  readonly proxy: Helper<ProxyAsk, ProxyAnswer>;
  readonly postgresPid: number | undefined;
  readonly databaseUrl: string | undefined;
}

export interface StageOptions {
  readonly anvil: string;
  readonly blocks: Blocks;
  readonly payers: readonly Address[];
  /** on the embedded database instead of PostgreSQL */
  readonly embedded?: boolean;
  readonly fromSources?: boolean;
}

/** Runs `work` on a new stage and stops every part of it. */
export async function onStage<T>(options: StageOptions, work: (stage: Stage) => Promise<T>): Promise<T> {
  const { anvil, blocks, payers, embedded, fromSources } = options;
  const stops: (() => Promise<void>)[] = [];
  try {
    const chain = await startLoadChain(anvil);
    stops.push(chain.stop);
    await chain.fund(payers, FUNDS);
    const proxy = startHelper<ProxyAsk, ProxyAnswer>("rpc-proxy.ts");
    stops.push(proxy.stop);
    const { url: rpcUrl } = await proxy.ask({ kind: "start", rpcUrl: chain.rpcUrl });
    const postgres = embedded ? undefined : await startPostgres();
    if (postgres) stops.push(postgres.stop);
    await chain.mine(blocks);
    const blockMs = blocks === "each second" ? 1_000 : 100;
    const databaseUrl = postgres?.url;
    const facilitator = await startLoadedFacilitator({ chain, rpcUrl, blockMs, databaseUrl, fromSources });
    stops.push(facilitator.stop);
    return await work({ chain, proxy, facilitator, postgresPid: postgres?.pid, databaseUrl });
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

/** Describes payments on a stage's chain, valid from now on. */
export function payloadTermsOf(
  { contracts }: LoadChain,
  what: { readonly endpoint: Endpoint; readonly payTo: Address; readonly payers: number },
): PayloadTerms {
  const { token, tokenName, tokenVersion, chainId, network } = contracts;
  const validBefore = Math.floor(Date.now() / 1_000) + VALID_SEC;
  return { ...what, chainId, network, token, tokenName, tokenVersion, amount: AMOUNT, validBefore };
}

const tools: {
  startPostgres(options: { durable: boolean }): Promise<{ url: string; stop(): Promise<void> }>;
} = require("../../facilitator/tools/postgres.cjs");

/** With fsync, as in production; includes the process id of the server, whose children do the work. */
async function startPostgres(): Promise<{ url: string; pid: number; stop(): Promise<void> }> {
  const server = await tools.startPostgres({ durable: true });
  const client = new Client({ connectionString: server.url });
  await client.connect();
  const { rows } = await client.query<{ pid: number }>("select pg_backend_pid() as pid");
  const pid = parentOf(rows[0]?.pid ?? 0);
  await client.end();
  return { ...server, pid };
}
