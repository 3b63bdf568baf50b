import { expect } from "chai";
import { ContractFactory, Interface } from "ethers";
import {
  type Address,
  type Hex,
  type SignedPayment,
  signDigest,
  transferTypedData,
  typedDataDigest,
} from "turnpike/protocol";
import type { Core } from "../../../facilitator/src/app/core";
import { transferCalldata } from "../../../facilitator/src/payments/calldata";
import { readArtifact } from "../../../scripts/deploy/artifact";
import { type FacilitatorWorld, type Payer, startWorld, until } from "../../support/facilitator";

describe("payments of wallets and tokens with a will of their own", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let core: Core;
  let paxos: Address;

  before(async () => {
    world = await startWorld();
    paxos = await deploy("FaultyTokens", "PaxosToken", []);
    core = await startCore();
  });
  after(() => world.stop());

  const startCore = (): Promise<Core> => {
    const { token: address, tokenName: name, tokenVersion: version } = world.contracts;
    const tokens = [
      { address, name, version },
      { address: paxos, name: "Paxos Like", version: "1" },
    ];
    return world.core({ TOKENS: JSON.stringify(tokens) });
  };
  const transfersOf = async (payer: string) => (await world.transfers()).filter(({ from }) => from === payer);

  it("settles for a wallet of code by its own word, alone and among others", async () => {
    const owner = await world.payer(0n);
    const wallet = await walletOwnedBy("TestWallet", owner);
    const alone = await signFor(wallet, owner);
    expect((await core.payments.authorize(alone)).kind).to.equal("settled");

    const others = await Promise.all(Array.from({ length: 6 }, () => world.signPayment()));
    const among = await signFor(wallet, owner);
    const outcomes = await Promise.all([...others, among].map((signed) => core.payments.authorize(signed)));
    expect(outcomes.map(({ kind }) => kind)).to.deep.equal(outcomes.map(() => "settled"));
    expect(await transfersOf(wallet)).to.have.length(2);
  });

  it("A7 B13 refuses wallets that burn gas, answer nonsense or say no, before anything is sent", async () => {
    const owner = await world.payer(0n);
    const before = await core.store.db.selectFrom("transactions").select("id").execute();
    for (const kind of ["BurnerWallet", "FickleWallet"]) {
      const wallet = await walletOwnedBy(kind, owner);
      const outcome = await core.payments.authorize(await signFor(wallet, owner));
      if (outcome.kind !== "refused") expect.fail(`${kind} is ${outcome.kind}`);
      expect(outcome.error.code).to.equal("InvalidSignature");
    }
    expect(await core.store.db.selectFrom("transactions").select("id").execute()).to.have.length(before.length);
  });

  it("A7 bounds the gas that one wallet's payments cost within an hour, though each settles", async () => {
    await core.stop();
    core = await world.core({ MAX_GAS_PER_PAYER: "1000000" });
    const owner = await world.payer(0n);
    const wallet = await walletOwnedBy("TestWallet", owner);
    const burst = await Promise.all(Array.from({ length: 4 }, () => signFor(wallet, owner)));
    const outcomes = await Promise.all(burst.map((signed) => core.payments.authorize(signed)));
    // What is in no transaction counts as much as it may use.
    expect(outcomes.map(({ kind }) => kind).sort()).to.deep.equal(["refused", "refused", "settled", "settled"]);
    const refused = outcomes.find(({ kind }) => kind === "refused");
    if (refused?.kind !== "refused") expect.fail("one is refused");
    expect(refused.error).to.include({ code: "RateLimited", reason: "gas" });
    expect(await transfersOf(wallet)).to.have.length(2);
    await core.store.db.updateTable("transactions").set({ gas_used: 950_000 }).where("status", "=", "mined").execute();
    await until(async () => core.payments.highestPayerGas() > 0.9, "what the transactions used is read");
    const third = await core.payments.authorize(await signFor(wallet, owner));
    expect(third).to.have.nested.property("error.reason", "gas");
    expect((await core.payments.authorize(await world.signPayment())).kind, "another payer").to.equal("settled");
    await core.stop();
    core = await startCore();
  });

  it("A7 a wallet that changes its mind loses its own payment and nobody else's", async () => {
    const owner = await world.payer(0n);
    const wallet = await walletOwnedBy("FickleWallet", owner);
    await answer(wallet, true);
    const fickle = await signFor(wallet, owner);
    const others = await Promise.all(Array.from({ length: 3 }, () => world.signPayment()));
    await mining(false);
    const answers = [fickle, ...others].map((signed) => core.payments.authorize(signed));
    await until(async () => {
      const states = await core.store.db.selectFrom("payments").select("state").where("state", "=", "sent").execute();
      return states.length === 4;
    }, "all are on their way");
    await answer(wallet, false, 10n ** 10n);
    await mining(true);
    const [first, ...rest] = await Promise.all(answers);
    expect(rest.map(({ kind }) => kind)).to.deep.equal(["settled", "settled", "settled"]);
    if (first?.kind !== "refused") expect.fail(`it is ${first?.kind}`);
    expect(first.error.code).to.equal("InvalidSignature");
    expect(await transfersOf(wallet)).to.have.length(0);
  });

  for (const name of ["an ordinary token", "a token that succeeds on a used nonce"]) {
    it(`B4 A33 a stranger is faster on the way, with ${name}: one transfer, proved by the stranger's transaction`, async () => {
      const token = name === "an ordinary token" ? world.contracts.token : paxos;
      const payer = await world.payer();
      const call = (await world.chain.wallet("stranger")) as Awaited<ReturnType<typeof world.chain.wallet>>;
      await (
        await call.sendTransaction({
          to: token,
          data: tokenCalls.encodeFunctionData("mint", [payer.address, 1_000_000n]),
        })
      ).wait();
      const signed = await world.signPayment({ payer, token, ...(token === paxos && { tokenName: "Paxos Like" }) });
      await mining(false);
      const answer = core.payments.authorize(signed);
      await until(async () => core.relayer.health().lanes[0]?.inFlight === 1, "ours is on its way");
      const { from, to, value, validAfter, validBefore, nonce } = signed.authorization;
      const s = signed.signature;
      const vrs = [Number(`0x${s.slice(130)}`), s.slice(0, 66), `0x${s.slice(66, 130)}`];
      const faster = await call.sendTransaction({
        to: token,
        data: tokenCalls.encodeFunctionData("transferWithAuthorization", [
          from,
          to,
          value,
          validAfter,
          validBefore,
          nonce,
          ...vrs,
        ]),
        maxFeePerGas: 10n ** 11n,
        maxPriorityFeePerGas: 10n ** 10n,
        gasLimit: 200_000n,
      });
      await mining(true);
      const outcome = await answer;
      if (outcome.kind !== "settled") expect.fail(`it is ${outcome.kind}`);
      expect(outcome.proof.transaction).to.equal(faster.hash);
      const held = await world.chain.provider.call({
        to: token,
        data: tokenCalls.encodeFunctionData("balanceOf", [from]),
      });
      expect(BigInt(held)).to.equal((token === paxos ? 1_000_000n : 2_000_000n) - value);
    });
  }

  it("B4 a stranger is faster than the trial of a wallet's payment: it is settled by the stranger's transaction", async () => {
    const owner = await world.payer(0n);
    const wallet = await walletOwnedBy("TestWallet", owner);
    const signed = await signFor(wallet, owner);
    const { token, authorization, signature } = signed;
    const stranger = await world.chain.wallet("stranger");
    const { accounts } = core.relayer;
    const { facts } = accounts;
    let faster: string | undefined;
    const patched: typeof accounts = {
      ...accounts,
      async facts(query) {
        const read = await facts(query);
        if (query.payer !== wallet || faster) return read;
        const sent = await stranger.sendTransaction({
          to: token,
          data: transferCalldata({ token, ...authorization, signature }),
          gasLimit: 300_000n,
        });
        await sent.wait();
        faster = sent.hash;
        return read;
      },
    };
    Object.assign(core.relayer, { accounts: patched });
    const outcome = await core.payments.authorize(signed);
    Object.assign(core.relayer, { accounts });
    if (outcome.kind !== "settled") expect.fail(`it is ${outcome.kind}`);
    expect(outcome.proof.transaction).to.equal(faster);
    expect(await transfersOf(wallet)).to.have.length(1);
  });

  it("A12 B13 a token that came to refuse every transfer costs two transactions a payment at most, and settles it later", async () => {
    const { provider } = world.chain;
    const token = world.contracts.token;
    const artifact = readArtifact("contracts/test/TestToken.sol", "TestToken");
    const abi = ["constructor(string,string,string,uint8)"];
    const deployer = await world.chain.wallet("deployer of doubles");
    const renamed = await new ContractFactory(abi, artifact.initCode, deployer).deploy("Renamed", "USD", "2", 6);
    await renamed.waitForDeployment();
    const [code, other] = [await provider.getCode(token), await provider.getCode(await renamed.getAddress())];
    const payments = await Promise.all(Array.from({ length: 4 }, () => world.signPayment()));
    const sent = async () => (await core.store.db.selectFrom("transactions").select("id").execute()).length;
    const before = await sent();
    // Signatures are for another domain from here on, as after an upgrade of the token that renames it.
    await provider.send("hardhat_setCode", [token, other]);
    const answers = await Promise.all(payments.map((signed) => core.payments.authorize(signed)));
    expect(answers.map(({ kind }) => kind)).not.to.include("settled");
    // One by itself, and one because its client asks.
    expect((await sent()) - before).to.be.within(1, 2 * payments.length);
    await provider.send("hardhat_setCode", [token, code]);
    const again = await Promise.all(payments.map((signed) => core.payments.authorize(signed)));
    expect(again.map(({ kind }) => kind)).to.deep.equal(payments.map(() => "settled"));
  });

  const tokenCalls = new Interface([
    "function mint(address,uint256)",
    "function balanceOf(address) view returns (uint256)",
    "function transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)",
  ]);

  const mining = (isOn: boolean) => world.chain.provider.send("evm_setIntervalMining", [isOn ? 100 : 0]);

  async function deploy(file: string, name: string, args: unknown[]): Promise<Address> {
    const artifact = readArtifact(`contracts/test/${file}.sol`, name);
    const abi = args.length ? ["constructor(address)"] : [];
    const deployed = await new ContractFactory(
      abi,
      artifact.initCode,
      await world.chain.wallet("deployer of doubles"),
    ).deploy(...args);
    await deployed.waitForDeployment();
    return (await deployed.getAddress()) as Address;
  }

  async function walletOwnedBy(kind: string, owner: Payer): Promise<Address> {
    const wallet = await deploy("TestWallets", kind, [owner.address]);
    await world.contracts.mint(wallet, 1_000_000n);
    return wallet;
  }

  async function answer(wallet: Address, yes: boolean, tip = 10n ** 9n): Promise<void> {
    const data = new Interface(["function answer(bool)"]).encodeFunctionData("answer", [yes]);
    const sent = await (await world.chain.wallet("switch")).sendTransaction({
      to: wallet,
      data,
      gasLimit: 60_000n,
      maxFeePerGas: 10n ** 11n,
      maxPriorityFeePerGas: tip,
    });
    if (tip === 10n ** 9n) await sent.wait();
  }

  /** A payment from the wallet, under its owner's key. */
  async function signFor(wallet: Address, owner: Payer): Promise<SignedPayment> {
    const plain = await world.signPayment({ payer: { ...owner, address: wallet } });
    const domain = {
      chainId: world.chain.chainId,
      token: plain.token,
      name: world.contracts.tokenName,
      version: world.contracts.tokenVersion,
    };
    const signature: Hex = signDigest(typedDataDigest(transferTypedData(domain, plain.authorization)), owner.key);
    return { ...plain, signature };
  }
});
