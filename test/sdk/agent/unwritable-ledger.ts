/** An agent whose ledger cannot be written, or not whole: what it cannot record it does not send. */
import { type FileHandle, open, utimes } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "chai";
import { type Ledger, type LedgerRecord, walletFromKey } from "turnpike/agent";
import { fileLedger } from "turnpike/agent/file-ledger";
import { startLedgerWorld, stopLedgerWorld } from "./support/ledger-world";
import { rejection } from "./support/rejection";
import {
  agentFor,
  type Chain,
  type FacilitatorStandIn,
  type ProviderStandIn,
  testKey,
  transfersSigned,
} from "./support/world";

describe("an agent whose ledger cannot be written", () => {
  let chain: Chain;
  let facilitator: FacilitatorStandIn;
  let provider: ProviderStandIn;
  let folder: string;
  let file: string;
  const quick = { staleMs: 2_000 };

  beforeEach(async () => {
    ({ chain, facilitator, provider, folder, file } = await startLedgerWorld());
  });
  afterEach(() => stopLedgerWorld({ folder }));

  it("signs nothing that it could not write down first", async () => {
    const first = agentFor(facilitator.url, {
      ledger: {
        load: async () => [],
        append: async () => {
          throw new Error("disk full");
        },
        close: async () => {},
      },
    });
    await first.agent.pay(provider.url).catch(() => undefined);
    expect(first.signed).to.deep.equal([]);
    expect(facilitator.signatures.size).to.equal(0);
  });

  it("sends nothing that it signed but could not write down", async () => {
    let writes = 0;
    const subject = agentFor(facilitator.url, {
      ledger: {
        load: async () => [],
        append: async () => {
          if (++writes === 2) throw new Error("disk full");
        },
        close: async () => {},
      },
    });
    await subject.agent.pay(provider.url).catch(() => undefined);
    expect([transfersSigned(subject), facilitator.signatures.size]).to.deep.equal([1, 0]);
  });

  it("sends nothing in a later call either while it cannot write down what it signed", async () => {
    let isFull = false;
    const records: LedgerRecord[] = [];
    const ledger: Ledger = {
      load: async () => [],
      append: async (record) => {
        isFull ||= record.type === "payment" && record.state === "signed";
        if (isFull) throw new Error("disk full");
        records.push(record);
      },
      close: async () => {},
    };
    const subject = agentFor(facilitator.url, { ledger });
    for (let i = 0; i < 2; i++) await subject.agent.pay(provider.url).catch(() => undefined);
    await subject.agent.settleHeld().catch(() => undefined);
    expect([transfersSigned(subject), facilitator.signatures.size]).to.deep.equal([1, 0]);
    ledger.append = async (record) => void records.push(record);
    expect((await subject.agent.pay(provider.url)).status).to.equal(200);
    const states = records.map((record) => record.type === "payment" && record.state);
    expect(states.slice(0, 2)).to.deep.equal(["reserved", "signed"]);
    expect([transfersSigned(subject), facilitator.signatures.size]).to.deep.equal([1, 1]);
  });

  it("sends no key of a secret that it could not write down", async () => {
    let isFull = true;
    const records: LedgerRecord[] = [];
    const key = walletFromKey(testKey("payer"));
    let signatures = 0;
    const subject = agentFor(facilitator.url, {
      ledger: {
        load: async () => [],
        append: async (record) => {
          if (isFull) throw new Error("disk full");
          records.push(record);
        },
        close: async () => {},
      },
      // As wallets do whose signatures differ from one time to the next: their secret is in the ledger.
      wallet: {
        getAddress: key.getAddress,
        signTypedData: async (domain, types, message) =>
          "TransferWithAuthorization" in types
            ? key.signTypedData(domain, types, message)
            : `0x${String(++signatures).padStart(130, "1")}`,
      },
    });
    const buy = () => subject.agent.pay(provider.url, { idempotencyKey: "one purchase" });
    await buy().catch(() => undefined);
    isFull = false;
    expect((await buy()).status).to.equal(200);
    expect(records[0]?.type).to.equal("root");
  });

  it("buys by a key once it can write again, when it could not write that it reserved", async () => {
    let isFull = true;
    const subject = agentFor(facilitator.url, {
      ledger: {
        load: async () => [],
        append: async () => {
          if (isFull) throw new Error("disk full");
        },
        close: async () => {},
      },
    });
    const buy = () => subject.agent.pay(provider.url, { idempotencyKey: "one purchase" });
    await buy().catch(() => undefined);
    isFull = false;
    expect((await buy()).status).to.equal(200);
    expect([transfersSigned(subject), chain.transfers.length]).to.deep.equal([1, 1]);
  });

  type Append = (this: FileHandle, line: string, whole: (line: string) => Promise<void>) => Promise<void>;

  /** Runs `work` while `append` takes the place of how files are appended to. */
  async function withAppend(append: Append, work: () => Promise<void>): Promise<void> {
    const probe = await open(join(folder, "probe"), "w");
    await probe.close();
    const handles = Object.getPrototypeOf(probe) as { appendFile: FileHandle["appendFile"] };
    const { appendFile: own } = handles;
    handles.appendFile = function (this: FileHandle, line) {
      return append.call(this, String(line), (part) => own.call(this, part));
    };
    try {
      await work();
    } finally {
      handles.appendFile = own;
    }
  }

  it("can be read after a disk that took only a part of a line", async () => {
    const first = agentFor(facilitator.url, { ledger: fileLedger(file, quick) });
    let fails = 1;
    const append: Append = async (line, whole) => {
      if (fails-- <= 0) return whole(line);
      await whole(line.slice(0, 20));
      throw Object.assign(new Error("no space left"), { code: "ENOSPC" });
    };
    await withAppend(append, async () => {
      await first.agent.pay(provider.url).catch(() => undefined);
      expect((await first.agent.pay(provider.url)).status).to.equal(200);
    });
    await first.agent.close();
    const second = agentFor(facilitator.url, { ledger: fileLedger(file, quick) });
    const [paid] = (await second.agent.payments()).filter(({ state }) => state === "served");
    expect(paid?.amount).to.equal(500_000n);
    await second.agent.close();
  });

  it("sends nothing that it wrote when another process had taken the lock", async () => {
    const { agent, ...subject } = agentFor(facilitator.url, { ledger: fileLedger(file, quick) });
    const append: Append = async (line, whole) => {
      // As after a pause of this process just before it writes.
      if (line.includes('"state":"signed"')) await utimes(`${file}.lock`, 1, 1);
      await whole(line);
    };
    await withAppend(append, async () => {
      expect((await rejection(agent.pay(provider.url))).code).to.equal("LedgerLocked");
    });
    expect([subject.signed.length > 0, facilitator.signatures.size]).to.deep.equal([true, 0]);
    await agent.close();
  });
});
