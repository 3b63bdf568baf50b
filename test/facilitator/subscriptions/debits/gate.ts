import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { expect } from "chai";
import { Contract } from "ethers";
import { RIGHTS, setOperator, turnpikeInterface } from "turnpike/chain";
import { HEADER, type Hex, randomBytes, secretHashOf, subscriptionId, toHex } from "turnpike/protocol";
import { until } from "../../../support/facilitator";
import { RUN_TYPESCRIPT } from "../../../support/typescript";
import { useService } from "../../support/http-service";

const CALL_COST = 500_000n;

describe("Facilitator: a metered gate without gas", function () {
  this.timeout(120_000);
  const http = useService();
  const folder = mkdtempSync(path.join(tmpdir(), "turnpike-metered-gate-"));
  const running = new Set<ChildProcess>();
  let apiKey: string;
  after(() => {
    for (const child of running) child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });

  async function gate(): Promise<{ url: string; kill(): Promise<void> }> {
    const { world, service } = http;
    const { proofSigners } = await service.client.supported();
    const provider = {
      port: 0,
      plans: [world.planId, world.planId, world.planId],
      network: world.contracts.network,
      rpcUrl: world.chain.rpcUrl,
      turnpike: world.contracts.turnpike,
      payTo: world.payee,
      pollMs: 50,
      apiKey,
      token: { address: world.contracts.token, name: world.contracts.tokenName, decimals: 6 },
      secret: "s".repeat(32),
      facilitator: { url: service.url, signers: proofSigners },
      claims: "memory",
      meterFolder: folder,
    };
    const entry = path.join(__dirname, "../../support/metered-gate.ts");
    const args = [...RUN_TYPESCRIPT, entry];
    const env = { ...process.env, PROVIDER: JSON.stringify(provider) };
    const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
    running.add(child);
    const [url] = (await once(createInterface({ input: child.stdout as NodeJS.ReadableStream }), "line")) as [string];
    return {
      url,
      async kill() {
        child.kill("SIGKILL");
        await once(child, "exit");
        running.delete(child);
      },
    };
  }

  it("S5 A28 charges through POST /debits what it served, once, also when it is killed with debits under way", async () => {
    const { world, service } = http;
    for (const account of (await service.client.supported()).relayers) {
      await setOperator(world.provider, world.contracts.turnpike, {
        planId: world.planId,
        account,
        rights: RIGHTS.debit,
      });
    }
    apiKey = await service.apiKey({ scopes: ["debits"] });
    const nonceBefore = await world.provider.getNonce();
    const subscriber = await world.payer(1_000_000_000n);
    const secret = toHex(randomBytes(32));
    const fields = { secretHash: secretHashOf(secret), permit: 1_000_000_000n, maxOverage: 20n * CALL_COST };
    const { idHash, request } = await world.signup(subscriber, fields);
    expect((await service.client.subscribe(request)).kind).to.equal("done");
    const id = subscriptionId(subscriber.address, secret);

    let charged = 0n;
    const call = async (url: string): Promise<number> => {
      const response = await fetch(`${url}/complete`, {
        method: "POST",
        headers: { "content-type": "application/json", [HEADER.subscription]: id },
        body: JSON.stringify({ words: 1_000 }),
      });
      const body = (await response.json()) as { charged?: string };
      if (response.status === 200) charged += BigInt(body.charged ?? 0);
      return response.status;
    };
    const turnpike = new Contract(world.contracts.turnpike, turnpikeInterface, world.chain.provider);
    const debited = async (): Promise<{ amount: bigint; index: number }[]> =>
      (await turnpike.queryFilter("Debited", 0)).flatMap((log) => {
        const parsed = turnpikeInterface.parseLog(log);
        const isOwn = (parsed?.args.idHash as Hex | undefined) === idHash;
        return parsed && isOwn ? [{ amount: parsed.args.amount as bigint, index: Number(parsed.args.index) }] : [];
      });
    const sum = async (): Promise<bigint> => (await debited()).reduce((total, { amount }) => total + amount, 0n);

    const first = await gate();
    await until(async () => (await call(first.url)) === 200, "the gate has seen the subscription");
    for (let i = 0; i < 3; i++) expect(await call(first.url)).to.equal(200);
    await first.kill();
    const owed = charged;
    expect(owed).to.equal(4n * CALL_COST);

    const second = await gate();
    // 503 while the first one's debits are open: the second one sends them once the other's lease has ended.
    await until(async () => (await call(second.url)) === 200, "the second gate serves");
    await until(async () => (await sum()) === charged, "what was served is debited", 30_000);
    const all = await debited();
    expect(all.map(({ index }) => index)).to.deep.equal(all.map((_, index) => index));
    expect(await call(second.url)).to.equal(200);
    await until(async () => (await sum()) === charged, "the next as well", 30_000);
    expect(charged).to.equal(6n * CALL_COST);
    expect(await world.provider.getNonce(), "the provider has sent nothing").to.equal(nonceBefore);
    await second.kill();
  });
});
