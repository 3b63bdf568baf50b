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

const PARTS: readonly (readonly [RegExp, Work])[] = [
  [/payments\/proofs/, "proofs"],
  [/payments\/(judge|claim|exact|processor)|chain\/account-reads/, "judging"],
  [/payments\/(batch|calldata)|chain\/gas|relayer\/(signing|fees|raw-)/, "encoding"],
  [
    /pglite|^wasm|\/kysely\/|\/pg(-\w+)?\/|src\/db\/|events\/feed|payments\/(ledger|intake|block-rows)|indexer\/(undo|block-writer)/,
    "storing",
  ],
  [/chain\/chain-reader|src\/indexer\//, "receipts"],
  [/chain\/rpc|\/undici\/|internal\/deps\/undici/, "rpc"],
  [
    /\/hono\/|@hono\/|node:_?http|src\/http\/|\/zod\/|strict-json|protocol\/schemas|src\/telemetry\/|\/pino\/|prom-client|node:_?stream|node:net/,
    "http",
  ],
];

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
    const part = PARTS.find(([pattern]) => pattern.test(url))?.[1];
    const work = functionName === "(idle)" ? "idle" : (part ?? workOf(parents.get(id)));
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
