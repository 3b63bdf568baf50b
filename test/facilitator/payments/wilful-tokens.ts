/** Tokens that take a fee, block, pause, return false or lie about nonces, at once or once a payment is on its way. */
import { expect } from "chai";
import { Contract, ContractFactory } from "ethers";
import type { Address } from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { readArtifact } from "../../../scripts/deploy/artifact";
import { BLOCK_MS, type FacilitatorWorld, type Payer, startWorld, until } from "../../support/facilitator";

/** As contracts/test/FaultyTokens.sol numbers them. */
const FAULTS = ["None", "FeeAfter", "FeeBefore", "Blocked", "Paused", "ReturnsFalse"] as const;
const LIES = ["UsedAlways", "UsedNever", "UsedReverts"] as const;
const NUMBERED: readonly string[] = [...FAULTS, ...LIES];
type Fault = (typeof FAULTS)[number] | (typeof LIES)[number];

const ABI = [
  "constructor(uint8)",
  "function set(uint8 fault, address party)",
  "function mint(address to, uint256 amount)",
  "function balanceOf(address account) view returns (uint256)",
];

const AMOUNT = 250_000n;

interface Expected {
  readonly fault: Fault;
  readonly party?: "payer" | "payee" | "settler";
  /** outcome or code while the token misbehaves */
  readonly during: string;
  /** the same request, once the token is sound again */
  readonly later: string;
}

const CASES: readonly Expected[] = [
  { fault: "FeeAfter", during: "failed", later: "failed" },
  { fault: "FeeBefore", during: "failed", later: "failed" },
  { fault: "Blocked", party: "payer", during: "TransferFailed", later: "settled" },
  { fault: "Blocked", party: "payee", during: "TransferFailed", later: "settled" },
  { fault: "Blocked", party: "settler", during: "settled", later: "settled" },
  { fault: "Paused", during: "TransferFailed", later: "settled" },
  { fault: "ReturnsFalse", during: "TransferFailed", later: "settled" },
];

const LYING: readonly Expected[] = [
  { fault: "UsedAlways", during: "pending", later: "settled" },
  { fault: "UsedNever", during: "settled", later: "settled" },
  { fault: "UsedReverts", during: "Unavailable", later: "settled" },
];

describe("Facilitator: tokens with faults", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;
  let token: Contract;
  let address: Address;

  before(async () => {
    world = await startWorld();
    const owner = await world.chain.wallet("owner of the faulty token");
    const { initCode } = readArtifact("contracts/test/FaultyTokens.sol", "WilfulToken");
    const made = await new ContractFactory(ABI, initCode, owner).deploy(6);
    await made.waitForDeployment();
    address = (await made.getAddress()) as Address;
    token = new Contract(address, ABI, owner);
    const { token: sound, tokenName: name, tokenVersion: version } = world.contracts;
    const tokens = [
      { address: sound, name, version },
      { address, name: "Wilful", version: "1" },
    ];
    const limits = { MAX_LOSSES_PER_PAYER: "1000", MAX_LOSSES_PER_PAYEE: "1000", AUTHORIZE_WAIT_MS: "30000" };
    core = await world.core({ TOKENS: JSON.stringify(tokens), ...limits });
  });
  after(() => world.stop());

  const mining = (isOn: boolean) => world.chain.provider.send("evm_setIntervalMining", [isOn ? BLOCK_MS : 0]);
  const held = (account: string): Promise<bigint> => token.getFunction("balanceOf")(account);

  async function fail(fault: Fault, party: string, isAhead: boolean): Promise<void> {
    // Ahead of ours in its block.
    const fees = isAhead && { gasLimit: 100_000n, maxFeePerGas: 10n ** 11n, maxPriorityFeePerGas: 10n ** 10n };
    const sent = await token.getFunction("set")(NUMBERED.indexOf(fault), party, { ...fees });
    if (!isAhead) await sent.wait();
  }

  async function fundedPayer(): Promise<Payer> {
    const payer = await world.payer(0n);
    await (await token.getFunction("mint")(payer.address, 4n * AMOUNT)).wait();
    return payer;
  }

  type Payment = Parameters<Core["payments"]["authorize"]>[0];
  const outcomeOf = (signed: Payment): Promise<string> =>
    core.payments.authorize(signed).then((outcome) => (outcome.kind === "refused" ? outcome.error.code : outcome.kind));

  const partyOf = (party: Expected["party"], payer: Payer): string =>
    ({ payer: payer.address, payee: world.payee, settler: world.contracts.batchSettler })[party ?? "payer"];

  for (const when of ["before a payment is accepted", "while it is on its way"] as const)
    for (const { fault, party, during, later } of when.startsWith("before") ? [...CASES, ...LYING] : CASES) {
      const what = party ? `${fault}, of the ${party}` : fault;
      it(`A10 A11 A12 ${what}, ${when}: ${during}, then ${later}; nothing less is paid, nothing twice, and others settle`, async () => {
        const payer = await fundedPayer();
        const signed = await world.signPayment({ payer, token: address, tokenName: "Wilful", amount: AMOUNT });
        const other = await world.signPayment();
        const before = await held(world.payee);
        const isAhead = when.startsWith("while");
        const faulty = () => fail(fault, party ? partyOf(party, payer) : world.contracts.turnpike, isAhead);
        if (isAhead) await mining(false);
        else await faulty();
        const answers = [signed, other].map(outcomeOf);
        if (isAhead) {
          const isSent = async () => {
            const sent = core.store.db.selectFrom("payments").select("state").where("state", "=", "sent");
            return (await sent.execute()).length === 2;
          };
          await until(isSent, "both are on their way");
          await faulty();
          await mining(true);
        }
        expect(await Promise.all(answers)).to.deep.equal([during, "settled"]);
        if (during === "failed") expect((await held(world.payee)) - before).to.equal(AMOUNT - AMOUNT / 100n);
        else expect((await held(world.payee)) - before).to.equal(during === "settled" ? AMOUNT : 0n);
        await fail("None", world.contracts.turnpike, false);
        expect(await outcomeOf(signed)).to.equal(later);
        if (later === "settled") expect((await held(world.payee)) - before).to.equal(AMOUNT);
      });
    }

  it("A11 says of a payment whose token moved something else that its nonce is spent, and in which transaction", async () => {
    const payer = await fundedPayer();
    await fail("FeeAfter", world.contracts.turnpike, false);
    const signed = await world.signPayment({ payer, token: address, tokenName: "Wilful", amount: AMOUNT });
    const outcome = await core.payments.authorize(signed);
    await fail("None", world.contracts.turnpike, false);
    if (outcome.kind !== "failed") expect.fail(`it is ${outcome.kind}`);
    const { tx_hash: transaction } = await core.store.db
      .selectFrom("payments")
      .select("tx_hash")
      .where("payment_id", "=", world.idOf(signed))
      .executeTakeFirstOrThrow();
    expect(outcome.error).to.include({ code: "PaymentNotAllowed", reason: "nonce_spent_elsewhere" });
    expect(outcome.error.message).to.contain(`another amount or to another account, in transaction ${transaction}`);
  });
});
