import { request as ask } from "node:http";
import { expect } from "chai";
import { ContractFactory } from "ethers";
import type { KeyChallenge } from "turnpike/facilitator";
import { type Address, personalDigest, signDigest } from "turnpike/protocol";
import { createKeys } from "../../../facilitator/src/providers/keys";
import { readArtifact } from "../../../scripts/deploy/artifact";
import type { Payer } from "../../support/facilitator";
import { freshStore } from "../../support/store";
import { useService } from "../support/http-service";
import { expectProblem } from "../support/problem";

const PUBLIC_URL = "https://pay.example.com";
const EIP_4361 =
  /^(\S+) wants you to sign in with your Ethereum account:\n(0x[0-9a-fA-F]{40})\n\n([^\n]+)\n\nURI: (\S+)\nVersion: 1\nChain ID: (\d+)\nNonce: ([A-Za-z0-9]{8,})\nIssued At: (\S+)\nExpiration Time: (\S+)\nResources:\n- (\S+)$/;

describe("Facilitator: signing in by EIP-4361", function () {
  this.timeout(120_000);
  const http = useService({ PUBLIC_URL });
  const { call } = http;

  async function asked(wallet: { address: Address }) {
    const wanted = { provider: wallet.address, name: `a "key" of 100 %`, scopes: ["read", "webhooks"] };
    const answer = await call("/keys/challenge", { body: wanted });
    expect(answer.status).to.equal(200);
    const { message = "", challenge, expiresAt } = (await answer.json()) as KeyChallenge;
    return { message, request: { ...wanted, challenge, expiresAt } };
  }
  const signedBy = (signer: Payer, message: string) => signDigest(personalDigest(message), signer.key);
  const refused = async (body: object, reason: string) => {
    const problem = await expectProblem(await call("/keys", { body }), 422, "InvalidSignature");
    expect(problem.reason ?? problem.details).to.satisfy((stated: unknown) => JSON.stringify(stated).includes(reason));
  };

  it("asks for exactly the text that the standard describes", async () => {
    const wallet = await http.world.payer(0n);
    const { message, request } = await asked(wallet);
    const [, domain, address, statement, uri, chainId, nonce, issuedAt, expires] = EIP_4361.exec(message) ?? [];
    expect({ domain, address, uri, chainId, nonce }).to.deep.equal({
      domain: "pay.example.com",
      address: wallet.address,
      uri: PUBLIC_URL,
      chainId: String(http.world.chain.chainId),
      nonce: request.challenge,
    });
    expect(statement)
      .to.include("read, webhooks")
      .and.include(new Date(request.expiresAt * 1_000).toISOString());
    expect(Date.parse(expires ?? "") - Date.parse(issuedAt ?? "")).to.equal(600_000);

    const body = { ...request, signature: signedBy(wallet, message) };
    const { key } = (await (await call("/keys", { body })).json()) as { key: string };
    const current = await (await call("/keys/current", { key })).json();
    expect(current).to.deep.include({ provider: wallet.address, scopes: ["read", "webhooks"], isOperator: false });
  });

  for (const [what, change] of [
    ["another domain", (text: string) => text.replace("pay.example.com", "pay.example.org")],
    ["another URI", (text: string) => text.replace("URI: https://pay.example.com", "URI: https://pay.example.org")],
    ["another chain", (text: string) => text.replace(/Chain ID: \d+/, "Chain ID: 1")],
    ["another statement", (text: string) => text.replace("read, webhooks", "read")],
    ["a nonce of its own", (text: string) => text.replace(/Nonce: \w+/, "Nonce: abcdefgh12345678")],
    ["another issue time", (text: string) => text.replace(/Issued At: 20/, "Issued At: 19")],
    ["another end", (text: string) => text.replace(/Expiration Time: 20/, "Expiration Time: 21")],
    ["no end", (text: string) => text.replace(/Expiration Time: .*\n/, "")],
    ["another name of the key", (text: string) => text.replace("name=a", "name=b")],
  ] as const) {
    it(`B21 takes no signature over a text with ${what}`, async () => {
      const wallet = await http.world.payer(0n);
      const { message, request } = await asked(wallet);
      const changed = change(message);
      expect(changed).not.to.equal(message);
      await refused({ ...request, signature: signedBy(wallet, changed) }, "signature");
      // The challenge is not used up by it.
      const body = { ...request, signature: signedBy(wallet, message) };
      expect((await call("/keys", { body })).status).to.equal(201);
    });
  }

  it("B21 takes a nonce once, for the wallet that it was given to", async () => {
    const [wallet, other] = [await http.world.payer(0n), await http.world.payer(0n)];
    const { message, request } = await asked(wallet);
    await refused({ ...request, signature: signedBy(other, message) }, "signature");
    const theirs = message.replace(wallet.address, other.address);
    await refused({ ...request, provider: other.address, signature: signedBy(other, theirs) }, "challenge");
    const body = { ...request, signature: signedBy(wallet, message) };
    expect((await call("/keys", { body })).status).to.equal(201);
    await refused(body, "challenge");
  });

  it("takes a contract wallet's own word for the text, and not for another text", async () => {
    const owner = await http.world.payer(0n);
    const deployer = await http.world.chain.wallet("deployer of wallets that sign in");
    const { initCode } = readArtifact("contracts/test/TestWallets.sol", "TestWallet");
    const contract = await new ContractFactory(["constructor(address)"], initCode, deployer).deploy(owner.address);
    await contract.waitForDeployment();
    const { message, request } = await asked({ address: (await contract.getAddress()) as Address });
    const phished = message.replaceAll("pay.example.com", "pay.example.org");
    await refused({ ...request, signature: signedBy(owner, phished) }, "signature");
    const body = { ...request, signature: signedBy(owner, message) };
    expect((await call("/keys", { body })).status).to.equal(201);
  });

  it("lets a challenge end after ten minutes", async () => {
    const store = await freshStore();
    try {
      let nowMs = 1_790_000_000_000;
      const wallet = await http.world.payer(0n);
      const keys = createKeys({
        store,
        network: { name: "local-31337", chainId: 31_337 },
        facilitator: wallet.address,
        chain: { code: async () => "0x", call: async () => ({ kind: "ok", data: "0x" }) },
        operators: [],
        nowMs: () => nowMs,
      });
      const wanted = { provider: wallet.address, name: "late", scopes: ["read" as const] };
      const { message = "", challenge, expiresAt } = await keys.challenge(wanted, PUBLIC_URL);
      const signature = signedBy(wallet, message);
      const create = () =>
        keys.create({ ...wanted, challenge, expiresAt, signature }, { address: "::1", requestId: "r" }, PUBLIC_URL);
      nowMs += 601_000;
      const late = await create().catch((error: { reason?: string }) => error);
      expect(late).to.include({ code: "InvalidSignature", reason: "challenge" });
      nowMs -= 2_000;
      expect((await create()).key).to.match(/^tpk_/);
    } finally {
      await store.close();
    }
  });

  it("names the host that is asked on this machine, and no other, where PUBLIC_URL is not set", async () => {
    await http.restart({ PUBLIC_URL: "" });
    const { host, port } = new URL(http.service.url);
    const wallet = await http.world.payer(0n);
    const { message, request } = await asked(wallet);
    expect(message.startsWith(`${host} wants`)).to.equal(true);
    const elsewhere = message.replaceAll(host, `localhost:${port}`);
    await refused({ ...request, signature: signedBy(wallet, elsewhere) }, "signature");

    // A name that an attacker made lead here.
    const body = JSON.stringify({ provider: wallet.address, name: "rebound", scopes: ["read"] });
    const answer = await new Promise<string>((resolve, reject) => {
      const headers = { host: `rebound.example:${port}`, "content-type": "application/json" };
      const asking = ask(`${http.service.url}/keys/challenge`, { method: "POST", headers }, async (response) => {
        const chunks: Buffer[] = [];
        for await (const chunk of response) chunks.push(chunk as Buffer);
        resolve(Buffer.concat(chunks).toString("utf8"));
      });
      asking.on("error", reject).end(body);
    });
    expect(JSON.parse(answer)).to.have.property("challenge");
    expect(JSON.parse(answer)).not.to.have.property("message");
  });

  it("B22 shows the service from inside to the wallets of OPERATORS, and to no other", async () => {
    const [operator, other] = [await http.world.payer(0n), await http.world.payer(0n)];
    await http.restart({ PUBLIC_URL, OPERATORS: operator.address });
    const theirs = await http.service.apiKey({ wallet: other });
    await expectProblem(await call("/operator/system", { key: theirs }), 403, "ScopeMissing");
    await expectProblem(await call("/operator/system"), 401, "InvalidApiKey");
    const key = await http.service.apiKey({ wallet: operator, scopes: ["read"] });
    const system = await (await call("/operator/system", { key })).json();
    expect(system).to.deep.include({ ready: true, renewalsDue: 0, webhooksPending: 0 });
    expect((system as { lanes: unknown[] }).lanes).to.have.length(1);
    expect(await (await call("/keys/current", { key })).json()).to.deep.include({ isOperator: true });
    const narrow = await http.service.apiKey({ wallet: operator, scopes: ["webhooks"] });
    await expectProblem(await call("/operator/system", { key: narrow }), 403, "ScopeMissing");
  });

  it("refuses a PUBLIC_URL that is no origin", () => {
    for (const wrong of ["https://pay.example.com/path", "pay.example.com", "ftp://pay.example.com", "https://a@b.c"])
      expect(() => http.world.config({ PUBLIC_URL: wrong }), wrong).to.throw(/PUBLIC_URL/);
    expect(http.world.config({ PUBLIC_URL: "https://pay.example.com/" }).publicUrl).to.equal(PUBLIC_URL);
  });
});
