import { expect } from "chai";
import { ContractFactory } from "ethers";
import { type ApiScope, apiKeyTypedData, type KeyChallenge } from "turnpike/facilitator";
import {
  type Address,
  personalDigest,
  signDigest,
  subscribeTypedData,
  typedDataDigest,
  UINT256_MAX,
} from "turnpike/protocol";
import { readArtifact } from "../../../scripts/deploy/artifact";
import type { Payer } from "../../support/facilitator";
import { useService } from "../support/http-service";
import { expectProblem } from "../support/problem";
import { INTERVAL_SEC, PRICE } from "../support/service";

describe("Facilitator: API keys", function () {
  this.timeout(120_000);
  const http = useService();
  const { call } = http;

  const wantedBy = (wallet: { address: Address }, scopes: readonly ApiScope[] = ["read"]) => ({
    provider: wallet.address,
    name: "a key",
    scopes,
  });
  async function challengeFor(wanted: ReturnType<typeof wantedBy> & { expiresAt?: number }): Promise<KeyChallenge> {
    const response = await call("/keys/challenge", { body: wanted });
    expect(response.status).to.equal(200);
    return (await response.json()) as KeyChallenge;
  }
  /** What POST /keys takes, signed by `signer` in one of the two ways. */
  async function signedRequest(signer: Payer, way: 0 | 1 = 0, wallet: { address: Address } = signer) {
    const wanted = wantedBy(wallet);
    const { challenge, expiresAt, facilitator, chainId, message = "" } = await challengeFor(wanted);
    const terms = { ...wanted, challenge, expiresAt, facilitator, chainId };
    const digest = way === 0 ? typedDataDigest(apiKeyTypedData(terms)) : personalDigest(message);
    return { ...wanted, challenge, expiresAt, signature: signDigest(digest, signer.key) };
  }

  for (const [way, name] of ["typed data", "a text by EIP-4361"].entries()) {
    it(`gives a key to the wallet that signs ${name}, and shows it once`, async () => {
      const wallet = await http.world.payer(0n);
      const response = await call("/keys", { body: await signedRequest(wallet, way as 0 | 1) });
      expect(response.status).to.equal(201);
      const { key, id } = (await response.json()) as { key: string; id: string };
      expect(key).to.match(/^tpk_[0-9a-f]{16}_[A-Za-z0-9_-]{43}$/);
      expect((await call("/events", { key })).status).to.equal(200);
      await expectProblem(await call("/events"), 401, "InvalidApiKey");
      const all = await http.service.apiKey({ wallet, scopes: ["keys"] });
      const text = await (await call("/keys", { key: all })).text();
      expect(text).to.include(id).and.not.include(key.slice(-43)).and.not.include("hash");
    });
  }

  it("gives a key to a contract wallet by its own word, and none to one that does not vouch", async () => {
    const owner = await http.world.payer(0n);
    const deployer = await http.world.chain.wallet("deployer of wallets");
    const deploy = async (kind: string): Promise<Address> => {
      const { initCode } = readArtifact("contracts/test/TestWallets.sol", kind);
      const contract = await new ContractFactory(["constructor(address)"], initCode, deployer).deploy(owner.address);
      await contract.waitForDeployment();
      return (await contract.getAddress()) as Address;
    };
    const wallet = { address: await deploy("TestWallet") };
    expect((await call("/keys", { body: await signedRequest(owner, 0, wallet) })).status).to.equal(201);
    const stranger = await http.world.payer(0n);
    const foreign = await call("/keys", { body: await signedRequest(stranger, 0, wallet) });
    await expectProblem(foreign, 422, "InvalidSignature");
    for (const kind of ["BurnerWallet", "BombWallet"]) {
      const hostile = { address: await deploy(kind) };
      await expectProblem(
        await call("/keys", { body: await signedRequest(owner, 0, hostile) }),
        422,
        "InvalidSignature",
      );
    }
  });

  it("B21 takes no signature twice, for other terms, by another wallet, or made for something else", async () => {
    const wallet = await http.world.payer(0n);
    const request = await signedRequest(wallet);
    const refused = async (body: unknown) => expectProblem(await call("/keys", { body }), 422, "InvalidSignature");
    await refused({ ...request, scopes: ["read", "debits"] });
    await refused({ ...request, name: "another" });
    await refused({ ...request, expiresAt: request.expiresAt - 1 });
    await refused({ ...request, provider: (await http.world.payer(0n)).address });
    await refused({ ...request, challenge: request.challenge.replace(/.$/, (last) => (last === "a" ? "b" : "a")) });
    const [salt, mac] = [request.challenge.slice(0, 32), request.challenge.slice(-32)];
    await refused({ ...request, challenge: `${salt}009999999999${mac}` });
    const { contracts, chain, planId } = http.world;
    const signup = { subscriber: wallet.address, planId, secretHash: planId, maxOverage: 0n, deadline: UINT256_MAX };
    const terms = {
      token: contracts.token,
      amount: PRICE,
      payTo: http.world.payee,
      intervalSec: INTERVAL_SEC,
      months: 0,
    };
    const other = subscribeTypedData({ chainId: chain.chainId, turnpike: contracts.turnpike }, terms, signup);
    await refused({ ...request, signature: signDigest(typedDataDigest(other), wallet.key) });
    const challenge = await challengeFor(wantedBy(wallet));
    const elsewhere = apiKeyTypedData({ ...wantedBy(wallet), ...challenge, chainId: 1 });
    const signature = signDigest(typedDataDigest(elsewhere), wallet.key);
    await refused({ ...wantedBy(wallet), challenge: challenge.challenge, expiresAt: challenge.expiresAt, signature });

    expect((await call("/keys", { body: request })).status).to.equal(201);
    await refused(request);
    await expectProblem(await call("/keys", { body: { ...request, expiresAt: 1 } }), 400, "InvalidRequest");
  });

  it("asks for the scope, by name", async () => {
    const key = await http.service.apiKey({ scopes: ["read"] });
    for (const [path, method, body] of [
      ["/webhook-endpoints", "GET", undefined],
      ["/keys", "GET", undefined],
      ["/audit", "GET", undefined],
      ["/audit", "POST", { act: "plan.stopped", object: "x" }],
      ["/debits", "POST", [{ idHash: `0x${"1".repeat(64)}`, amount: "1", index: 0 }]],
    ] as const) {
      const problem = await expectProblem(await call(path, { key, method, body }), 403, "ScopeMissing");
      expect(problem.details, path).to.have.property("scope");
    }
  });

  it("knows only keys that are well formed, live and not revoked", async () => {
    const key = await http.service.apiKey({ scopes: ["read", "keys"] });
    const forged = key.slice(0, -1) + (key.endsWith("A") ? "B" : "A");
    for (const wrong of [forged, "", "tpk_", key.slice(4), `${key}x`, `${key} ${key}`, "Bearer", "x".repeat(5_000)]) {
      const refused = await call("/events", { key: wrong });
      expect(refused.headers.get("www-authenticate")).to.equal("Bearer");
      await expectProblem(refused, 401, "InvalidApiKey");
    }
    const sent = (authorization: string) => fetch(`${http.service.url}/events`, { headers: { authorization } });
    for (const other of [key, `Basic ${key}`]) await expectProblem(await sent(other), 401, "InvalidApiKey");
    for (const scheme of ["bearer", "BEARER "]) expect((await sent(`${scheme} ${key}`)).status, scheme).to.equal(200);
    const id = key.split("_")[1];
    expect((await call(`/keys/${id}`, { key, method: "DELETE" })).status).to.equal(200);
    await expectProblem(await call("/events", { key }), 401, "InvalidApiKey");
  });

  it("rotates: the successor works at once, the old key until its overlap ends", async () => {
    const key = await http.service.apiKey({ scopes: ["read"] });
    const first = (await (await call("/keys/rotate", { key, body: {} })).json()) as { key: string; scopes: string[] };
    expect(first.scopes).to.deep.equal(["read"]);
    expect((await call("/events", { key })).status).to.equal(200);
    const second = await call("/keys/rotate", { key: first.key, body: { overlapSec: 0 } });
    expect(second.status).to.equal(201);
    await expectProblem(await call("/events", { key: first.key }), 401, "InvalidApiKey");
    expect((await call("/events", { key: ((await second.json()) as { key: string }).key })).status).to.equal(200);
  });

  it("B21 gives a key that is rotated without overlap one successor, however many rotate it at once", async () => {
    const key = await http.service.apiKey({ scopes: ["read"] });
    const racing = Array.from({ length: 12 }, () => call("/keys/rotate", { key, body: { overlapSec: 0 } }));
    const statuses = (await Promise.all(racing)).map(({ status }) => status).sort();
    expect(statuses).to.deep.equal([201, ...Array.from({ length: 11 }, () => 401)]);
  });

  it("B21 revokes the former successor of a key that is rotated again, so that a thief who was first keeps nothing", async () => {
    const key = await http.service.apiKey({ scopes: ["read"] });
    const rotated = async (overlapSec: number) => {
      const response = await call("/keys/rotate", { key, body: { overlapSec } });
      return ((await response.json()) as { key: string }).key;
    };
    const thief = await rotated(600);
    const hidden = await call("/keys/rotate", { key: thief, body: { overlapSec: 600 } });
    const { key: last } = (await hidden.json()) as { key: string };
    const owner = await rotated(0);
    for (const each of [thief, last]) await expectProblem(await call("/events", { key: each }), 401, "InvalidApiKey");
    expect((await call("/events", { key: owner })).status).to.equal(200);
  });

  it("gives a rotation that is repeated, as after a lost answer, a successor with the life of the first", async () => {
    const key = await http.service.apiKey({ scopes: ["read"] });
    const rotated = async () => (await call("/keys/rotate", { key, body: { overlapSec: 60 } })).json();
    const ends = [await rotated(), await rotated(), await rotated()].map(({ expiresAt }) => expiresAt);
    expect(ends[0]).to.be.greaterThan(Date.now() / 1_000 + 86_400);
    expect(ends).to.deep.equal(Array(3).fill(ends[0]));
  });

  it("signs no challenge for a key whose end no date can say, or that would last too long", async () => {
    const wanted = wantedBy(await http.world.payer(0n));
    for (const expiresAt of [1, 1e15, Number.MAX_SAFE_INTEGER, Math.floor(Date.now() / 1_000) + 6 * 365 * 86_400]) {
      const problem = await expectProblem(
        await call("/keys/challenge", { body: { ...wanted, expiresAt } }),
        400,
        "InvalidRequest",
      );
      expect(problem.message).to.match(/^expiresAt: must be in the future, at most five years/);
    }
  });

  it("B22 lets no key touch another: neither one with a smaller scope, nor another provider's", async () => {
    const mine = await http.service.apiKey({ scopes: ["keys"] });
    const small = await http.service.apiKey({ scopes: ["read"] });
    const id = mine.split("_")[1];
    await expectProblem(await call(`/keys/${id}`, { key: small, method: "DELETE" }), 403, "ScopeMissing");
    const stranger = await http.service.apiKey({ wallet: await http.world.payer(0n), scopes: ["keys"] });
    await expectProblem(await call(`/keys/${id}`, { key: stranger, method: "DELETE" }), 404, "UnknownObject");
    const listed = (await (await call("/keys", { key: stranger })).json()) as { keys: unknown[] };
    expect(listed.keys).to.have.length(1);
    expect((await call("/keys", { key: mine })).status).to.equal(200);
  });

  it("limits how often one key asks, and says when to come back", async () => {
    await http.restart({ KEY_REQUESTS_PER_MINUTE: "3" });
    const [one, other] = [await http.service.apiKey(), await http.service.apiKey()];
    const statuses: number[] = [];
    for (let i = 0; i < 5; i++) statuses.push((await call("/events", { key: one })).status);
    expect(statuses).to.deep.equal([200, 200, 200, 429, 429]);
    const limited = await call("/events", { key: one });
    expect(Number(limited.headers.get("retry-after"))).to.be.within(1, 60);
    await expectProblem(limited, 429, "RateLimited");
    expect((await call("/events", { key: other })).status).to.equal(200);
  });
});
