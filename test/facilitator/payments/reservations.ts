import { expect } from "chai";
import { Client } from "pg";
import { addressOfKey, type Hex, randomBytes, toHex } from "turnpike/protocol";
import type { ExactRequest } from "../../../facilitator/src/payments";
import { testKey } from "../../support/chain";
import { BLOCK_MS, type FacilitatorWorld, fund, type Payer, startWorld } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { settleBody } from "../support/payments";
import { buildProgram, type Program, type ServiceProcess } from "../support/processes";

const fresh = (): Hex => toHex(randomBytes(32));
const PRICE = 250_000n;

/** Two whole processes on one database. A gate verifies, runs its handler, and settles afterwards, at either of them. */
describe("Facilitator: reservations, by two processes on one PostgreSQL", function () {
  this.timeout(180_000);
  let postgres: TestPostgres;
  let world: FacilitatorWorld;
  let program: Program;
  let settings: Record<string, string>;
  let one: ServiceProcess;
  let two: ServiceProcess;
  let database: Client;

  before(async () => {
    postgres = await startPostgres();
    world = await startWorld({ postgres, blockMs: BLOCK_MS });
    program = buildProgram();
    const keys = ["reserving lane 1", "reserving lane 2"].map((name) => testKey(name) as Hex);
    for (const key of keys) await fund(world.chain, addressOfKey(key));
    settings = world.env({ RELAYER_KEYS: keys.join(",") });
    one = await program.start(settings, "api,relayer,indexer");
    two = await program.start(settings, "api,relayer,indexer");
    database = new Client({ connectionString: settings.DATABASE_URL });
    await database.connect();
  });
  after(async () => {
    await database?.end();
    await one?.kill();
    await two?.kill();
    program?.remove();
    await world?.stop();
    await postgres?.stop();
  });

  interface Purchase {
    readonly request: ExactRequest;
    readonly grantId: Hex;
  }

  const purchaseOf = async (
    payer: Payer,
    fields: { validForSec?: number; amount?: bigint } = {},
  ): Promise<Purchase> => ({
    request: await world.signExact({ payer, amount: PRICE, ...fields }),
    grantId: fresh(),
  });
  const bodyOf = ({ request, grantId }: Purchase, version: 1 | 2 = 2) =>
    settleBody(request, version, world.chain.chainId, { grant: { id: grantId, resource: request.resource } });
  const reserve = (at: ServiceProcess, purchase: Purchase, version: 1 | 2 = 2) =>
    at.client.x402Verify(bodyOf(purchase, version));
  const settle = (at: ServiceProcess, purchase: Purchase, version: 1 | 2 = 2) =>
    at.client.x402Settle(bodyOf(purchase, version));
  const release = (at: ServiceProcess, { request, grantId }: Purchase) =>
    at.client.releasePayment(world.idOf(request), grantId);
  const reservedOf = ({ request }: Purchase) => ({
    isValid: true,
    payer: request.authorization.from,
    reserved: true,
  });
  const transfersOf = async ({ address }: Payer) => (await world.transfers()).filter(({ from }) => from === address);
  const rowsOf = async ({ address }: Payer) =>
    (await database.query("select * from payment_reservations where payer = $1", [address])).rows;

  it("HA11 of many payments against a balance for one, one is reserved, whichever process is asked", async () => {
    const payer = await world.payer(PRICE);
    const purchases = await Promise.all(Array.from({ length: 20 }, () => purchaseOf(payer)));
    const answers = await Promise.all(purchases.map((each, index) => reserve(index % 2 ? one : two, each)));
    expect(answers.filter(({ isValid }) => isValid)).to.have.length(1);
    for (const answer of answers) {
      if (!answer.isValid) expect(answer.invalidReason).to.equal("insufficient_funds");
    }
    expect(await rowsOf(payer)).to.have.length(1);
  });

  for (const version of [1, 2] as const) {
    it(`HA11 a version ${version} payment is reserved once, settles once, and moves once`, async () => {
      const payer = await world.payer(PRICE);
      const purchase = await purchaseOf(payer);
      for (const at of [one, two, one])
        expect(await reserve(at, purchase, version)).to.deep.equal(reservedOf(purchase));
      expect(await rowsOf(payer)).to.have.length(1);
      expect(await settle(two, purchase, version)).to.include({ success: true });
      expect(await rowsOf(payer), "accepted").to.have.length(0);
      expect(await reserve(one, purchase, version), "it is paid").to.deep.equal(reservedOf(purchase));
      expect(await release(one, purchase), "it cannot be taken back").to.equal(false);
      expect(await transfersOf(payer)).to.have.length(1);
    });
  }
});
