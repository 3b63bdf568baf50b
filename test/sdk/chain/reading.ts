import { expect } from "chai";
import { Contract } from "ethers";
import {
  checkChainId,
  connectRpc,
  decodeRevert,
  decodeTurnpikeLog,
  findDeployment,
  findSettlement,
  loadPlans,
  loadToken,
  type RawLog,
  type Rpc,
  reasonName,
  requireDeployment,
  tokenInterface,
  turnpikeInterface,
} from "turnpike/chain";
import { ConfigError, type Hex, isErrorCode, TurnpikeError, Unavailable } from "turnpike/protocol";
import { NO_AUTH } from "../../support/acts";
import { DAY, PRICE, type SubscriptionWorld, startSubscriptionWorld } from "../../support/subscriptions";

describe("reading the chain", function () {
  this.timeout(120_000);
  let world: SubscriptionWorld;
  let rpc: Rpc;

  before(async () => {
    world = await startSubscriptionWorld();
    rpc = connectRpc({ urls: world.rpc.url, chainId: 31_337 });
  });
  after(async () => {
    rpc.close();
    await world.stop();
  });
  afterEach(() => {
    world.rpc.isDown = false;
  });

  it("returns plans as they were created, and none that do not exist", async () => {
    const stranger: Hex = `0x${"99".repeat(32)}`;
    const plans = await loadPlans(rpc, world.contracts.turnpike, [world.planId, stranger, world.otherPlanId]);
    expect([...plans.keys()]).to.deep.equal([world.planId, world.otherPlanId]);
    expect(plans.get(world.planId)).to.deep.include({
      planId: world.planId,
      token: world.contracts.token,
      amount: PRICE,
      intervalSec: 30 * DAY,
      graceSec: 3 * DAY,
      payTo: world.treasury,
      deprecated: false,
      stopped: false,
      successor: undefined,
    });
  });

  it("returns a token's EIP-712 name and version", async () => {
    const { tokenName: name, tokenVersion: version, token: address } = world.contracts;
    expect(await loadToken(rpc, address)).to.deep.equal({ address, name, version, decimals: 6 });
  });

  it("uses the next endpoint when one fails, and throws Unavailable without URLs when all do", async () => {
    const dead = "http://127.0.0.1:9/secret-api-key";
    const both = connectRpc({ urls: [dead, world.rpc.url], chainId: 31_337 });
    expect(await both.send("eth_chainId", [])).to.equal("0x7a69");
    both.close();
    const none = connectRpc({ urls: dead, chainId: 31_337, timeoutMs: 2_000 });
    const error = await none.send("eth_chainId", []).catch((cause: unknown) => cause);
    none.close();
    expect(error).to.be.instanceOf(Unavailable);
    expect((error as Error).message).to.not.include("secret");
  });

  it("refuses endpoints of another chain", async () => {
    const other = connectRpc({ urls: world.rpc.url, chainId: 8_453 });
    expect(await checkChainId(other, 8_453).catch((error: unknown) => error)).to.be.instanceOf(ConfigError);
    await checkChainId(rpc, 31_337);
    other.close();
    expect(() => connectRpc({ urls: "ftp://x", chainId: 1 })).to.throw(ConfigError);
    expect(() => connectRpc({ urls: [], chainId: 1 })).to.throw(ConfigError);
  });

  it("decodes a revert to its Solidity name and arguments", async () => {
    const idHash = `0x${"12".repeat(32)}`;
    const data = turnpikeInterface.encodeFunctionData("renew", [idHash]);
    const error = await rpc
      .send("eth_call", [{ to: world.contracts.turnpike, data }, "latest"])
      .catch((cause: unknown) => cause);
    expect(error).to.be.instanceOf(TurnpikeError);
    expect(error).to.include({ code: "SubscriptionNotActive" });
    expect((error as TurnpikeError).details).to.deep.equal({ idHash, status: "NONE" });
    expect(decodeRevert("0x")).to.equal(undefined);
    expect(decodeRevert("0xdeadbeef")).to.equal(undefined);
    expect(decodeRevert({ info: { error: { data: "0x12345678" } } })).to.equal(undefined);
  });

  it("reports reverts over a socket as it does over HTTP", async () => {
    const socket = connectRpc({ urls: world.chain.rpcUrl.replace("http", "ws"), chainId: 31_337 });
    const data = turnpikeInterface.encodeFunctionData("renew", [`0x${"12".repeat(32)}`]);
    for (const [input, expected] of [
      [data, { code: "SubscriptionNotActive" }],
      ["0xdeadbeef", { code: "Unavailable", reason: "no_answer" }],
    ] as const) {
      for (const each of [rpc, socket]) {
        const call = { to: world.contracts.turnpike, data: input };
        const error = await each.send("eth_call", [call, "latest"]).catch((cause: unknown) => cause);
        expect(error).to.include(expected);
      }
    }
    socket.close();
  });

  it("names every error of the contracts by its selector", () => {
    turnpikeInterface.forEachError((fragment) => {
      expect(reasonName(fragment.selector), fragment.name).to.equal(fragment.name);
      expect(isErrorCode(fragment.name), fragment.name).to.equal(true);
    });
    expect(reasonName("0x00000000")).to.equal(undefined);
  });

  it("decodes every log that Turnpike has emitted", async () => {
    const { idHash, turnpike } = await world.subscribe("logged", { maxOverage: 5n });
    await world.mined(turnpike.getFunction("setMaxOverage")(idHash, 6n, NO_AUTH));
    await world.mined(turnpike.getFunction("changePlan")(idHash, world.otherPlanId, 7n, 10n ** 12n, NO_AUTH));
    await world.mined(turnpike.getFunction("pause")(idHash, NO_AUTH));
    await world.mined(turnpike.getFunction("cancel")(idHash, false, NO_AUTH));
    const filter = { address: world.contracts.turnpike, fromBlock: "0x0", toBlock: "latest" };
    const logs = await rpc.send<RawLog[]>("eth_getLogs", [filter]);
    const events = logs.map((log) => decodeTurnpikeLog(log));
    expect(events).to.not.include(undefined);
    const names = events.map((event) => event?.name);
    expect(names).to.include.members([
      "PlanCreated",
      "OperatorSet",
      "Subscribed",
      "MaxOverageSet",
      "PlanChanged",
      "Paused",
    ]);
    expect(names).to.include("Cancelled");
    const subscribed = events.find((event) => event?.name === "Subscribed");
    expect(subscribed).to.deep.include({ idHash, planId: world.planId, maxOverage: 5n });
    const declared: string[] = [];
    turnpikeInterface.forEachEvent(({ name }) => declared.push(name));
    for (const name of declared) {
      const fragment = turnpikeInterface.getEvent(name);
      if (fragment)
        expect(() => decodeTurnpikeLog({ topics: [fragment.topicHash], data: "0x" })).to.not.throw(TypeError);
    }
  });

  it("finds a settled payment by the token's logs, and no other", async () => {
    const payer = await world.chain.wallet("payer");
    await world.contracts.mint(payer.address, 10n);
    const { token, tokenName: name, tokenVersion: version } = world.contracts;
    const nonce: Hex = `0x${"ab".repeat(32)}`;
    const message = {
      from: payer.address,
      to: world.treasury,
      value: 7n,
      validAfter: 0,
      validBefore: 2n ** 40n,
      nonce,
    };
    const types = {
      TransferWithAuthorization: [
        ...[
          { name: "from", type: "address" },
          { name: "to", type: "address" },
        ],
        ...[
          { name: "value", type: "uint256" },
          { name: "validAfter", type: "uint256" },
        ],
        ...[
          { name: "validBefore", type: "uint256" },
          { name: "nonce", type: "bytes32" },
        ],
      ],
    };
    const domain = { name, version, chainId: 31_337, verifyingContract: token };
    const signature = await payer.signTypedData(domain, types, message);
    const [r, s, v] = [
      signature.slice(0, 66),
      `0x${signature.slice(66, 130)}`,
      Number.parseInt(signature.slice(130), 16),
    ];
    const contract = new Contract(token, tokenInterface, await world.chain.wallet("relayer"));
    const sent = await contract.getFunction("transferWithAuthorization")(...Object.values(message), v, r, s);
    const transaction = (await sent.wait()).hash as Hex;

    const expected = { token, payer: payer.address as Hex, payTo: world.treasury, amount: 7n, nonce, transaction };
    expect(await findSettlement(rpc, expected)).to.equal("settled");
    const others = [
      { ...expected, amount: 8n },
      { ...expected, payTo: payer.address as Hex },
      { ...expected, payer: world.treasury },
      { ...expected, token: world.contracts.turnpike },
      { ...expected, nonce: `0x${"ac".repeat(32)}` as Hex },
      { ...expected, transaction: `0x${"ad".repeat(32)}` as Hex },
    ];
    for (const other of others) expect(await findSettlement(rpc, other)).to.equal("absent");
    // A node that shows a receipt before the receipt's block does not say when the payment was made.
    const send = async (method: string, params: readonly unknown[]) =>
      method === "eth_getBlockByNumber" ? null : rpc.send(method, params);
    const ahead = { ...rpc, send } as Rpc;
    const judged = await findSettlement(ahead, { ...expected, before: 2 ** 40 }).catch((error: unknown) => error);
    expect(judged).to.be.instanceOf(Unavailable);
    expect(await findSettlement(rpc, { ...expected, before: 2 ** 40 })).to.equal("settled");
    const deep = { ...expected, confirmations: 2 };
    expect(await findSettlement(rpc, deep)).to.equal("shallow");
    await world.chain.advance(1);
    expect(await findSettlement(rpc, deep)).to.equal("settled");
    world.rpc.isDown = true;
    expect(await findSettlement(rpc, expected).catch((error: unknown) => error)).to.be.instanceOf(Unavailable);
  });

  it("prefers a configured address to a known deployment, and has none without either", () => {
    const turnpike = world.contracts.turnpike;
    expect(requireDeployment({ chainId: 31_337, turnpike: turnpike.toLowerCase() })).to.deep.equal({
      chainId: 31_337,
      network: "local-31337",
      turnpike,
    });
    expect(findDeployment(31_337)).to.equal(undefined);
    expect(() => requireDeployment({ chainId: 31_337 })).to.throw(ConfigError, /turnpike is not set/);
    expect(() => requireDeployment({ chainId: 31_337, turnpike: "0x12" })).to.throw(ConfigError);
  });
});
