/**
 * Attributes CPU time: each sample of a profile counts for the innermost function that belongs to a part of the
 * program. Pure.
 */

export interface Profile {
  readonly nodes: readonly {
    readonly id: number;
    readonly callFrame: { readonly functionName: string; readonly url: string };
    readonly children?: readonly number[];
  }[];
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

export type Work = "judging" | "storing" | "encoding" | "receipts" | "proofs" | "http" | "rpc" | "runtime";

/** Files whose folder has several kinds of work, below facilitator/src. */
export const FILES: Readonly<Record<string, Readonly<Partial<Record<Work, readonly string[]>>>>> = {
  payments: {
    judging: [
      ...["admission", "admission-limiter", "balance-locks", "exact", "exact-payments", "failed-spends", "holds"],
      ...["index", "judge", "outcome", "payer-gas", "payer-key", "payment-request", "payments", "processor"],
      ...["queue-shares", "reservations", "stages", "transfer"],
    ],
    proofs: ["early-proofs", "grants", "proof-verifier", "proofs"],
    encoding: ["batch", "batch-builder", "calldata", "refund-service", "sender", "wallet-deployments"],
    storing: [
      ...["block-projection", "block-rows", "committed", "intake", "ledger", "queue", "refund-cap", "refund-records"],
      ...["refunds", "restorations", "rows", "transfer-events"],
    ],
    receipts: ["evidence", "expired", "permit2-evidence", "projection", "settlement-depth", "unmoved"],
  },
  relayer: {
    encoding: [
      ...["accepted-signers", "broadcasts", "fee-watch", "fees", "former-keys", "gap", "in-flight-slots", "index"],
      ...["keys", "kms", "lane", "lane-sender", "lane-watch", "node-silence", "raw-transaction", "signer"],
      ...["signer-watch", "signing"],
    ],
    storing: ["lane-lease", "lane-state", "lease", "retention", "transactions"],
    receipts: ["receipts"],
  },
  chain: {
    judging: ["account-reads", "contract-errors", "signer-of", "undeployed-wallet", "wallet-signature"],
    encoding: ["gas"],
    receipts: ["chain-reader", "facts", "log-search", "permit2-settlements", "same-logs", "transaction-hash"],
    rpc: ["contract-checks", "node-health", "open", "rpc", "rpc-node", "rpc-nodes", "rpc-post"],
  },
};

/** Folders with one kind of work, below facilitator/src. */
export const FOLDERS: Readonly<Record<string, Work>> = {
  analytics: "storing",
  db: "storing",
  discovery: "http",
  events: "storing",
  http: "http",
  indexer: "receipts",
  providers: "http",
  subscriptions: "storing",
  telemetry: "http",
  webhooks: "storing",
};

/** Their work is that of their callers. */
export const OF_CALLERS: readonly string[] = ["app", "cli", "config", "lib", "main"];

/** What is not the service's own. */
const PACKAGES: readonly (readonly [RegExp, Work])[] = [
  [/pglite|^wasm|\/kysely\/|\/pg(-\w+)?\//, "storing"],
  [/\/undici\/|internal\/deps\/undici/, "rpc"],
  [
    /\/hono\/|@hono\/|node:_?http|\/zod\/|strict-json|protocol\/schemas|\/pino\/|prom-client|node:_?stream|node:net/,
    "http",
  ],
];

const SERVICE = /facilitator\/src\/([\w-]+)(?:\/([\w-]+))?[\w/-]*\.ts$/;

/** Returns what a file of a profile works on; undefined where its callers decide. */
export function workOfFile(url: string): Work | undefined {
  const [, folder = "", name = ""] = SERVICE.exec(url) ?? [];
  if (folder === "") return PACKAGES.find(([pattern]) => pattern.test(url))?.[1];
  const kinds = Object.entries(FILES[folder] ?? {}) as [Work, readonly string[]][];
  return FOLDERS[folder] ?? kinds.find(([, names]) => names.includes(name))?.[0];
}

/** Returns the service's files that a profile has samples of, and that are in no part. */
export function filesOfNoPart({ nodes, samples }: Profile): string[] {
  const sampled = new Set(samples);
  const urls = nodes.flatMap(({ id, callFrame }) => (sampled.has(id) ? [callFrame.url] : []));
  const isOfNone = (url: string): boolean => {
    const [, folder] = SERVICE.exec(url) ?? [];
    return folder !== undefined && !OF_CALLERS.includes(folder) && workOfFile(url) === undefined;
  };
  return [...new Set(urls.filter(isOfNone))].sort();
}

/** Returns milliseconds of CPU by kind of work. Samples of no part count for the runtime (garbage, sockets, timers). */
export function splitOf(profile: Profile): Record<Work, number> {
  const parents = new Map<number, number>();
  const byId = new Map(profile.nodes.map((node) => [node.id, node]));
  for (const node of profile.nodes) for (const child of node.children ?? []) parents.set(child, node.id);
  const known = new Map<number, Work | "idle">();
  const workOf = (id: number | undefined): Work | "idle" => {
    const node = id === undefined ? undefined : byId.get(id);
    if (id === undefined || !node) return "runtime";
    const before = known.get(id);
    if (before) return before;
    const { functionName, url } = node.callFrame;
    const work = functionName === "(idle)" ? "idle" : (workOfFile(url) ?? workOf(parents.get(id)));
    known.set(id, work);
    return work;
  };
  const split: Record<Work, number> = {
    judging: 0,
    storing: 0,
    encoding: 0,
    receipts: 0,
    proofs: 0,
    http: 0,
    rpc: 0,
    runtime: 0,
  };
  profile.samples.forEach((id, place) => {
    const work = workOf(id);
    if (work !== "idle") split[work] += (profile.timeDeltas[place] ?? 0) / 1_000;
  });
  return split;
}
