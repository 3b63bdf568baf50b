import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { addressOfKey, type Hex } from "turnpike/protocol";
import { startChain, testKey } from "../../support/chain";
import { deployAll } from "../../support/deployment";
import { type FacilitatorWorld, startWorld } from "../../support/facilitator";
import { buildProgram, type Program } from "../support/processes";

describe("Facilitator: doctor and the checks at the start", function () {
  this.timeout(120_000);
  let world: FacilitatorWorld;
  let program: Program;
  let home: string;

  before(async () => {
    world = await startWorld();
    program = buildProgram();
    home = mkdtempSync(path.join(tmpdir(), "turnpike-doctor-"));
    await program.run(["migrate"], world.env());
  });
  after(async () => {
    program?.remove();
    await world?.stop();
    rmSync(home, { recursive: true, force: true });
  });

  function keyFile(name: string, mode: number): string {
    const file = path.join(home, name);
    writeFileSync(file, `${world.env().RELAYER_KEYS}\n`);
    chmodSync(file, mode);
    return `file:${file}`;
  }

  it("reports no fault in a correct setup, and prints no secret", async () => {
    const env = world.env({ RELAYER_KEYS: keyFile("good", 0o600) });
    const { status, stdout, stderr } = await program.run(["doctor"], env);
    expect(stdout + stderr).not.to.contain("fail");
    expect(status, stdout).to.equal(0);
    for (const said of [
      /^ok {3}settings: roles api/m,
      /^ok {3}RPC 1 .*serves chain 31337/m,
      /newest block \d+ is \d+ s/,
      /^ok {3}RPC 1 .*returns the logs of/m,
      /^ok {3}TURNPIKE: .*this release's contract/m,
      /^ok {3}BATCH_SETTLER: /m,
      /^ok {3}TOKENS Test.*domain/m,
      /^ok {3}(PGLITE_DIR|DATABASE_URL): is migrated/m,
      /^ok {3}RELAYER_KEYS 1: only its owner can read its file/m,
      /^ok {3}RELAYER_KEYS 1: 0x[0-9a-fA-F]{40} holds 1000/m,
      /^ok {3}PROOF_KEY: 0x[0-9a-fA-F]{40} signs/m,
    ]) {
      expect(stdout).to.match(said);
    }
    const key = world.env().RELAYER_KEYS ?? "";
    expect(stdout).not.to.contain(key.slice(2)).and.not.to.contain(String(world.env().PROOF_KEY).slice(2));
  });

  it("HD3 shows the additional proof signers, and fails where the key in use is retired", async () => {
    const relayer = { RELAYER_KEYS: keyFile("as Kubernetes mounts it for a pod's group", 0o440) };
    const current = addressOfKey(testKey("proof signer") as Hex);
    const former = addressOfKey(testKey("former proof signer") as Hex);
    const shown = await program.run(["doctor"], world.env({ ...relayer, PROOF_SIGNERS: `${former}@1790000000` }));
    expect(shown.status, shown.stdout).to.equal(0);
    expect(shown.stdout).to.match(/^ok {3}RELAYER_KEYS 1: only its owner and its group can read its file/m);
    expect(shown.stdout).to.include(`ok   PROOF_SIGNERS: proofs by ${former} count until 2026-09-21T14:13:20.000Z`);
    const wrong = await program.run(["doctor"], world.env({ ...relayer, PROOF_SIGNERS: `${current}@1790000000` }));
    expect(wrong.status).not.to.equal(0);
    expect(wrong.stdout).to.match(/^fail PROOF_SIGNERS: .*retires the address of PROOF_KEY.*Remedy: /m);
  });

  it("warns of a node that is named twice, of keys for two purposes, and of an archive that nothing can be written to", async () => {
    const { rpcUrl } = world.chain;
    const { RELAYER_KEYS: relayer = "" } = world.env();
    const [archive, plain] = [path.join(home, "archive"), path.join(home, "plain")];
    mkdirSync(archive);
    writeFileSync(plain, "");
    const cases: [Record<string, string>, RegExp, number][] = [
      [
        { RPC_URLS: `${rpcUrl}?key=hunter2,${rpcUrl}/?key=hunter2` },
        /^warn RPC_URLS: RPC 2 \(127\.0\.0\.1:\d+\) is the same URL as RPC 1, .*Remedy: /m,
        0,
      ],
      [{ PROOF_KEY: relayer }, /^warn PROOF_KEY: is the key of RELAYER_KEYS 1 \(0x\w{40}\) too: .*Remedy: /m, 0],
      [
        { REFUND_KEYS: `${world.payee}=${relayer}` },
        /^warn REFUND_KEYS 0x\w{40}: is the key of RELAYER_KEYS 1 .*Remedy: /m,
        0,
      ],
      [
        { ARCHIVE_DIR: archive },
        /^(?:ok {3}|warn )ARCHIVE_DIR: .*archive can be written, and its disk has [\d.]+ GiB left/m,
        0,
      ],
      [{ ARCHIVE_DIR: plain }, /^fail ARCHIVE_DIR: .*plain is no folder\. Remedy: /m, 1],
      [{ ARCHIVE_DIR: path.join(home, "absent") }, /^fail ARCHIVE_DIR: .*absent does not exist\. Remedy: /m, 1],
    ];
    for (const [change, expected, status] of cases) {
      const env = world.env({ RELAYER_KEYS: relayer, ...change });
      const outcome = await program.run(["doctor"], env);
      expect(outcome.stdout).to.match(expected);
      expect(outcome.status, outcome.stdout).to.equal(status);
      expect(outcome.stdout + outcome.stderr)
        .not.to.contain("hunter2")
        .and.not.to.contain(relayer.slice(2));
    }
  });

  it("reports each fault with its remedy, and exits with a status other than 0", async () => {
    const poor = testKey("a key without money");
    const cases: [Record<string, string>, RegExp][] = [
      [{ RPC_URLS: "http://127.0.0.1:1" }, /^fail RPC 1 .*do not answer.*Remedy: /m],
      [{ CHAIN_ID: "31338" }, /^fail RPC 1 .*another chain than CHAIN_ID 31338/m],
      [{ TURNPIKE: world.payee }, /^fail TURNPIKE: .*has no contract.*Remedy: /m],
      [{ TOKENS: tokens({ version: "9" }) }, /^fail TOKENS .*signs for another domain.*Remedy: set name and version/m],
      [{ RELAYER_KEYS: poor }, /^fail RELAYER_KEYS 1: .*below MIN_BALANCE_WEI.*Remedy: send it native coins/m],
      [
        { RELAYER_KEYS: keyFile("open", 0o644) },
        /^fail RELAYER_KEYS 1: .*read by others \(mode 644\).*Remedy: chmod 600/m,
      ],
      [
        { DATABASE_URL: "postgres://nobody:hunter2@127.0.0.1:1/none" },
        /^fail DATABASE_URL: it cannot be reached.*Remedy: /m,
      ],
      [{ POLL_MS: "soon" }, /^fail settings: POLL_MS must be a whole number/m],
      [{ PORT: "99999" }, /^fail settings: PORT must be at most 65535\. /m],
      [{ CONFIRMATIONS: "0" }, /^fail settings: CONFIRMATIONS must be at least 1\. /m],
      [{ LOG_LEVEL: "loud" }, /^fail settings: LOG_LEVEL must be one of silent, error, warn, info, debug\. /m],
      [
        { START_BLOCK: "99999999" },
        /^fail START_BLOCK: 99999999 is after the newest block \d+: nothing .*Remedy: set START_BLOCK to the block/m,
      ],
    ];
    const outcomes = await Promise.all(cases.map(([change]) => program.run(["doctor"], world.env(change))));
    for (const [index, { status, stdout, stderr }] of outcomes.entries()) {
      const said = stdout + stderr;
      expect(said).to.match(cases[index]?.[1] as RegExp);
      expect(status, said).to.equal(1);
      expect(said).not.to.contain("hunter2");
    }
  });

  it("warns of a START_BLOCK after the contract's deployment, and not of the deployment's block", async () => {
    const newest = Number(await world.chain.provider.getBlockNumber());
    const late = await program.run(["doctor"], world.env({ START_BLOCK: String(newest) }));
    expect(late.stdout).to.match(
      /^warn START_BLOCK: TURNPIKE was deployed before block \d+: .*Remedy: set START_BLOCK.*reindex --wipe/m,
    );
    expect(late.status, late.stdout).to.equal(0);
    const right = await program.run(["doctor"], world.env({ START_BLOCK: "1" }));
    expect(right.stdout).not.to.contain("START_BLOCK");
  });

  it("names an unknown command, and a port that is in use, with what to do", async () => {
    const unknown = await program.run(["dcotor"], world.env());
    expect(unknown.stderr).to.equal(
      'unknown command "dcotor": use start, migrate, doctor, reindex, reconcile, webhooks\n',
    );
    expect(unknown.status).to.equal(1);
    const { port } = new URL(world.chain.rpcUrl);
    const inUse = await program.run(["start"], world.env({ HOST: "127.0.0.1", PORT: port }));
    expect(inUse.stderr).to.match(
      new RegExp(`^ConfigError: cannot listen on 127.0.0.1:${port}: another process uses the port: .*set PORT`, "m"),
    );
    expect(inUse.status).to.equal(1);
  });

  it("B9 warns about a node that does not return many blocks' logs, and falls back to the node that serves the chain", async () => {
    const narrow = await narrowNode(world.chain.rpcUrl);
    const { port } = narrow.address() as AddressInfo;
    const env = world.env({ RPC_URLS: `http://127.0.0.1:${port},${world.chain.rpcUrl}` });
    const { status, stdout } = await program.run(["doctor"], env);
    narrow.close();
    expect(stdout).to.match(/^warn RPC 1 .*does not return the logs of 500 blocks in one request.*Remedy: /m);
    expect(stdout).to.match(/^ok {3}RPC 2 .*returns the logs of/m);
    expect(status).to.equal(0);
  });

  it("B9 on a public chain, another release's contract code stops the start; a wrong token domain does on every chain", async () => {
    const wrong = await world.core({ TOKENS: tokens({ version: "9" }) }).catch((error: Error) => error.message);
    expect(wrong).to.match(/signs for another domain than "Test USD" version "9"/);
    const chain = await startChain({ chainId: 84_532 });
    try {
      const contracts = await deployAll(chain);
      const env = world.env({
        CHAIN_ID: "84532",
        RPC_URLS: chain.rpcUrl,
        PORT: "0",
        START_BLOCK: "0",
        TURNPIKE: contracts.turnpike,
        // A contract, but not the right one.
        BATCH_SETTLER: contracts.token,
        TOKENS: JSON.stringify([
          { address: contracts.token, name: contracts.tokenName, version: contracts.tokenVersion },
        ]),
      });
      const { status, stderr } = await program.run(["start"], env);
      expect(stderr).to.match(/^ConfigError: .*has other code than this release's contract/);
      expect(status).to.equal(1);
    } finally {
      await chain.stop();
    }
  });

  function tokens(change: Record<string, string>): string {
    const { token: address, tokenName: name, tokenVersion: version } = world.contracts;
    return JSON.stringify([{ address, name, version, ...change }]);
  }
});

/** A node before the node that refuses logs of more than one block, as public ones refuse those of many. */
async function narrowNode(target: string): Promise<Server> {
  const server = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const isWide = body.includes("eth_getLogs") && body.includes("fromBlock");
    const answer = isWide
      ? JSON.stringify({ jsonrpc: "2.0", id: 0, error: { code: -32_000, message: "too many blocks" } })
      : await (await fetch(target, { method: "POST", headers: { "content-type": "application/json" }, body })).text();
    response.writeHead(200, { "content-type": "application/json" }).end(answer);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}
