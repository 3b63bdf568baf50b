import { expect } from "chai";
import { turnpikeInterface } from "turnpike/chain";
import { type Address, type Hex, keccakText } from "turnpike/protocol";
import type { ChainLog, Relayer, SubmitRequest, TxOutcome } from "../../../../facilitator/src/relayer";
import { type BatchItem, batchGas, collect } from "../../../../facilitator/src/subscriptions/renewals/batch";

const TURNPIKE: Address = "0x00000000000000000000000000000000000000AA";
const MAX_GAS = 1n << 24n;

const items = (count: number): BatchItem[] =>
  Array.from({ length: count }, (_, i) => ({ idHash: keccakText(`item ${i}`), paidThroughSec: 1_000, attempts: 0 }));
const idsOf = (data: Hex): Hex[] => [...turnpikeInterface.decodeFunctionData("renewBatch", data)[0]] as Hex[];
const reason = (name: string): string => turnpikeInterface.getError(name)?.selector ?? "0x00000000";

function logOf(address: Address, event: string, args: unknown[]): ChainLog {
  const { data, topics } = turnpikeInterface.encodeEventLog(event, args);
  const place = { blockNumber: 7, blockHash: keccakText("block"), transaction: keccakText("tx"), logIndex: 0 };
  return { address, data: data as Hex, topics: topics as Hex[], ...place };
}

/** What the chain would answer, by rule: everything that the batch does goes through these three functions. */
interface Script {
  /** reason per item as simulated; "0x00000000" goes well */
  simulated?(id: Hex): string;
  /** more items than this run out of gas in simulation */
  maxSimulated?: number;
  /** more items than this run out of gas on the chain */
  capacity?: number;
  logs?(ids: Hex[]): ChainLog[];
  outcome?: TxOutcome;
}

function scripted(script: Script) {
  const sent: { ids: Hex[]; request: SubmitRequest }[] = [];
  const relayer = {
    async simulate({ data }: { data: Hex }) {
      const ids = idsOf(data);
      if (ids.length > (script.maxSimulated ?? Number.POSITIVE_INFINITY)) {
        return { kind: "reverted", error: { name: "InsufficientGas" } };
      }
      const reasons = ids.map((id) => script.simulated?.(id) ?? "0x00000000");
      return { kind: "ok", data: turnpikeInterface.encodeFunctionResult("renewBatch", [reasons]) };
    },
    async submit(request: SubmitRequest) {
      sent.push({ ids: idsOf(request.data), request });
      return String(sent.length - 1);
    },
    async waitFor(id: string): Promise<TxOutcome> {
      if (script.outcome) return script.outcome;
      const { ids = [] } = sent[Number(id)] ?? {};
      const success = ids.length <= (script.capacity ?? Number.POSITIVE_INFINITY);
      const renewed = ids.map((each) => logOf(TURNPIKE, "Renewed", [each, 2_000]));
      const logs = success ? (script.logs?.(ids) ?? renewed) : [];
      const place = { hash: keccakText("tx"), blockNumber: 7, blockHash: keccakText("block") };
      return { kind: "mined", success, gasUsed: 1n, logs, ...place };
    },
  } as unknown as Relayer;
  let waits = 0;
  const keepWaiting = async (): Promise<boolean> => ++waits < 3;
  return { sent, run: (batch: BatchItem[]) => collect(batch, { relayer, turnpike: TURNPIKE, keepWaiting }) };
}

describe("Facilitator: renewal batches", () => {
  it("A40 gives every item its share of gas, and never more than a transaction may have", () => {
    const data = (count: number) =>
      turnpikeInterface.encodeFunctionData("renewBatch", [items(count).map((i) => i.idHash)]) as Hex;
    // The contract wants 467,143 left before the last item.
    expect(batchGas(data(1), 1)).to.be.greaterThan(21_000n + 467_143n);
    expect(batchGas(data(100), 100)).to.be.greaterThan(100n * 30_000n + 467_143n);
    expect(batchGas(data(400), 400)).to.equal(MAX_GAS);
  });

  it("A13 sends without those that fail in simulation, and reports their reasons", async () => {
    const batch = items(4);
    const poisoned = batch[2]?.idHash;
    const { sent, run } = scripted({
      simulated: (id) => (id === poisoned ? reason("InsufficientFunds") : "0x00000000"),
    });
    const outcomes = await run(batch);
    expect(sent).to.have.length(1);
    expect(sent[0]?.ids).to.deep.equal(batch.filter((i) => i.idHash !== poisoned).map((i) => i.idHash));
    expect(outcomes.get(poisoned ?? "0x")).to.deep.equal({ kind: "failed", reason: "InsufficientFunds" });
    expect([...outcomes.values()].filter((o) => o.kind === "renewed")).to.have.length(3);
  });

  it("sends nothing when all fail, and waits for what is early without calling it a failure", async () => {
    const { sent, run } = scripted({ simulated: () => reason("RenewalNotDue") });
    const outcomes = await run(items(2));
    expect(sent).to.have.length(0);
    expect([...outcomes.values()].map((o) => o.kind)).to.deep.equal(["early", "early"]);
  });

  it("A40 halves what runs out of gas in simulation, until it fits", async () => {
    const { sent, run } = scripted({ maxSimulated: 2 });
    const outcomes = await run(items(5));
    expect(sent.map(({ ids }) => ids.length)).to.deep.equal([2, 1, 2]);
    expect([...outcomes.values()].every((o) => o.kind === "renewed")).to.equal(true);
  });

  it("A40 halves what ran out of gas on the chain; nobody is called a bad payer for it", async () => {
    const { sent, run } = scripted({ capacity: 2 });
    const outcomes = await run(items(4));
    expect(sent.map(({ ids }) => ids.length)).to.deep.equal([4, 2, 2]);
    expect([...outcomes.values()].every((o) => o.kind === "renewed")).to.equal(true);
  });

  it("B5 accepts Turnpike's own events alone: a decoy's are nothing, silence is no success", async () => {
    const batch = items(2);
    const decoy: Address = "0x00000000000000000000000000000000000000bB";
    const { run } = scripted({ logs: (ids) => [logOf(decoy, "Renewed", [ids[0], 2_000])] });
    expect([...(await run(batch)).values()].map((o) => o.kind)).to.deep.equal(["unsettled", "unsettled"]);
  });

  it("reports the reason that the chain gave to an item that turned bad after simulation", async () => {
    const [item] = items(1);
    const { run } = scripted({
      logs: ([id]) => [logOf(TURNPIKE, "RenewalFailed", [id, reason("InsufficientApproval")])],
    });
    expect((await run(items(1))).get(item?.idHash ?? "0x")).to.deep.equal({
      kind: "failed",
      reason: "InsufficientApproval",
    });
  });

  it("S5 is the same transaction for the same periods and attempt, another for the next attempt", async () => {
    const { sent, run } = scripted({});
    await run(items(3));
    await run(items(3));
    await run(items(3).map((item) => ({ ...item, attempts: 1 })));
    const keys = sent.map(({ request }) => request.idempotencyKey);
    expect(keys[0]).to.equal(keys[1]);
    expect(keys[2]).not.to.equal(keys[0]);
  });

  it("B7 calls nothing failed while the transaction may still land", async () => {
    const { run } = scripted({ outcome: { kind: "pending" } });
    expect([...(await run(items(2))).values()].map((o) => o.kind)).to.deep.equal(["unsettled", "unsettled"]);
  });
});
