/** AWS KMS throttles, fails, hangs or answers wrongly, with real processes on PostgreSQL and keys in KMS. */
import { expect } from "chai";
import { type Address, addressOfKey, type Hex, proofToWire, type SignedPayment } from "turnpike/protocol";
import { openKmsSigner } from "../../../facilitator/src/relayer/kms";
import { testKey } from "../../support/chain";
import { fund, until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { AWS_ENV, type Kms, type KmsFault, startKms } from "../support/kms";
import { paymentToWire } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";
import { type ServiceWorld, startServiceWorld } from "../support/service";

const PATIENCE_MS = 120_000;
const FAULTS: readonly KmsFault[] = ["throttled", "5xx", "hanging", "other key"];

describe("Facilitator: AWS KMS in trouble", function () {
  this.timeout(400_000);
  const kept = { ...process.env };
  let postgres: TestPostgres;
  let world: ServiceWorld;
  let program: Program;
  let kms: Kms;
  let running: ServiceProcess[] = [];

  before(async () => {
    Object.assign(process.env, AWS_ENV);
    postgres = await startPostgres();
    program = buildProgram();
  });
  beforeEach(async () => {
    world = await startServiceWorld({ postgres });
    kms = await startKms();
  });
  afterEach(async () => {
    for (const one of running) await one.kill();
    running = [];
    await kms?.stop();
    await world?.stop();
  });
  after(async () => {
    for (const name of Object.keys(AWS_ENV)) {
      if (kept[name] === undefined) delete process.env[name];
      else process.env[name] = kept[name];
    }
    program?.remove();
    await postgres?.stop();
  });

  const env = (more: Record<string, string>): Record<string, string> =>
    world.env({ ...AWS_ENV, KMS_ENDPOINT: kms.url, ...more });

  async function start(more: Record<string, string>, roles?: string): Promise<ServiceProcess> {
    const one = await program.start(env(more), roles);
    running.push(one);
    return one;
  }

  /** Makes the key and funds it. */
  async function fundedKey(id: string): Promise<Address> {
    const { address } = await openKmsSigner({ keyId: id, endpoint: kms.url });
    await fund(world.chain, address);
    return address;
  }

  const post = (one: ServiceProcess, signed: SignedPayment) =>
    one.client.authorize(paymentToWire(signed)).catch((error: { code?: string; retryAfterSec?: number }) => error);

  const settled = (one: ServiceProcess, signed: SignedPayment) =>
    until(
      async (saw) => {
        const outcome = await post(one, signed);
        return "kind" in outcome && outcome.kind === "settled" ? outcome.proof : saw(outcome);
      },
      "the payment is settled",
      PATIENCE_MS,
    );

  const readyz = async (one: ServiceProcess): Promise<{ status: number; text: string }> => {
    const response = await fetch(`${one.url}/readyz`);
    return { status: response.status, text: await response.text() };
  };

  it("HK1 the relayer's key: payments wait, each process says so, and each payment settles once when KMS is back", async () => {
    await fundedKey("relayer");
    const relayer = await start({ RELAYER_KEYS: "aws-kms:relayer" }, "relayer,indexer");
    const api = await start({}, "api");
    await settled(api, await world.signPayment());
    let count = 1;
    for (const fault of FAULTS) {
      kms.fault = fault;
      const waiting = [await world.signPayment(), await world.signPayment()];
      for (const one of waiting) void post(api, one);
      await until(
        async () => {
          const states = await Promise.all([readyz(relayer), readyz(api)]);
          return states.every(({ status, text }) => status === 503 && /key management service/.test(text));
        },
        `${fault}: each process says what is wrong`,
        PATIENCE_MS,
      );
      const refused = await post(api, await world.signPayment());
      expect(refused, `${fault}: a new payment is refused, for now`).to.include({ code: "Unavailable" });
      kms.fault = undefined;
      for (const one of waiting) await settled(api, one);
      count += waiting.length;
      await until(async () => (await readyz(api)).status === 200, `${fault}: it is ready again`, PATIENCE_MS);
    }
    expect((await world.transfers()).length, "each payment once").to.equal(count);
    expect(relayer.output()).not.to.match(/lease of a lane lapsed/);
  });

  it("HK1 one relayer key of two cannot sign: the other one sends what is queued, and no payment waits for KMS", async () => {
    const [broken, well] = [await fundedKey("broken"), await fundedKey("well")];
    const one = await start({ RELAYER_KEYS: "aws-kms:broken,aws-kms:well" });
    kms.faultOf.set("broken", "hanging");
    const asked = () => kms.asked.filter(({ body }) => body.KeyId === "broken").length;
    async function isPaidBetweenTwoRequests(): Promise<boolean> {
      const before = asked();
      const signed = await Promise.all(Array.from({ length: 3 }, () => world.signPayment()));
      await Promise.all(signed.map((payment) => settled(one, payment)));
      return asked() === before;
    }
    let inTurn = 0;
    await until(
      async () => {
        inTurn = (await isPaidBetweenTwoRequests()) ? inTurn + 1 : 0;
        return inTurn === 3;
      },
      "payments settle while the broken key's service hangs",
      PATIENCE_MS,
    );
    const senders = await Promise.all(
      (await world.transfers()).map(
        async ({ transaction }) => (await world.chain.provider.getTransaction(transaction))?.from,
      ),
    );
    expect(new Set(senders)).to.deep.equal(new Set([well]));
    const { status, text } = await readyz(one);
    expect(status, "it can settle").to.equal(200);
    expect(text).to.include(`lane ${broken}`);
  });

  it("HK1 KMS signs a few of many, again and again: those are sent, and nothing starts over", async () => {
    await fundedKey("relayer");
    const one = await start({ RELAYER_KEYS: "aws-kms:relayer", BATCH_ITEMS: "1", LANE_IN_FLIGHT: "16" });
    const payers = await Promise.all(Array.from({ length: 12 }, () => world.payer()));
    const signed = await Promise.all(payers.map((payer) => world.signPayment({ payer, validForSec: 3_600 })));
    kms.signaturesLeft = 0;
    for (const payment of signed) void post(one, payment);
    await until(async () => /12 queued/.test((await readyz(one)).text), "all are queued", PATIENCE_MS);
    const refill = setInterval(() => {
      kms.signaturesLeft = 3;
    }, 1_500);
    try {
      for (const payment of signed) await settled(one, payment);
    } finally {
      clearInterval(refill);
    }
    expect((await world.transfers()).length).to.equal(12);
  });

  it("HK1 the proof key: money moves once, the answer is a 503 that can be repeated, and the proof follows when KMS is back", async () => {
    const signer = (await openKmsSigner({ keyId: "proof", endpoint: kms.url })).address;
    const one = await start({ PROOF_KEY: "aws-kms:proof" });
    for (const fault of FAULTS) {
      kms.fault = fault;
      const signed = await world.signPayment();
      const answer = await post(one, signed);
      expect(answer, fault).to.satisfy(
        (found: typeof answer) =>
          ("code" in found && found.code === "Unavailable") || ("kind" in found && found.kind === "pending"),
      );
      kms.fault = undefined;
      const proof = proofToWire(await settled(one, signed));
      expect(proof.facilitator).to.equal(signer);
      const transfers = (await world.transfers()).filter(({ from }) => from === signed.authorization.from);
      expect(transfers.length, fault).to.equal(1);
    }
  });

  it("HK1 KMS stays away: a key in a file in its place sends what waits", async () => {
    await fundedKey("relayer");
    const spare = testKey("spare relayer key") as Hex;
    await fund(world.chain, addressOfKey(spare));
    const relayer = await start({ RELAYER_KEYS: "aws-kms:relayer" }, "relayer,indexer");
    const api = await start({}, "api");
    kms.fault = "hanging";
    const waiting = [await world.signPayment({ validForSec: 3_600 }), await world.signPayment({ validForSec: 3_600 })];
    for (const one of waiting) void post(api, one);
    await until(async () => /key management service/.test((await readyz(api)).text), "it is noticed", PATIENCE_MS);
    await relayer.stop();
    await start({ RELAYER_KEYS: spare }, "relayer,indexer");
    for (const one of waiting) await settled(api, one);
    await settled(api, await world.signPayment());
    expect((await world.transfers()).length, "each payment once").to.equal(3);
  });

  it("HK1 a process that starts while KMS is away ends with 1 and one line that names it, and starts when it is back", async () => {
    await fundedKey("relayer");
    kms.fault = "5xx";
    const failed = await program.launch(["start"], env({ RELAYER_KEYS: "aws-kms:relayer", LOG_LEVEL: "info" }));
    expect(await failed.ended).to.equal(1);
    expect(failed.output()).to.match(/the key management service does not answer: KMSInternalException/);
    const doctor = await program.run(["doctor"], env({ RELAYER_KEYS: "aws-kms:relayer" }));
    expect(doctor.stdout).to.match(/^fail RELAYER_KEYS 1: the key management service does not answer: .*Remedy: /m);
    kms.fault = undefined;
    const one = await start({ RELAYER_KEYS: "aws-kms:relayer" });
    await settled(one, await world.signPayment());
  });
});
