/** The proxies' configurations that are shipped, before two processes: shedding, a sick chain and a kill are no outage. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { createFacilitatorClient, problemSchema } from "turnpike/facilitator";
import { freePort } from "../../support/chain";
import { until } from "../../support/facilitator";
import { startPostgres, type TestPostgres } from "../../support/postgres";
import { type SeveralService, startTwoChains, type TwoChains } from "../support/chains";
import { record } from "../support/figures";
import { paymentToWire } from "../support/payments";
import type { ServiceWorld } from "../support/service";

const PATHS = `${process.env.PATH}:/usr/sbin:/usr/local/sbin`;
/** How many payments each process takes at once; three times as much is sent to both. */
const CAPACITY = 10;
const TIMES = 3;
const SETTINGS = { MAX_INTAKE: String(CAPACITY), RPC_TIMEOUT_MS: "2000", LANE_LEASE_MS: "7000" };

interface Proxy {
  readonly file: string;
  /** what shedding becomes an outage without */
  readonly needs: readonly RegExp[];
  readonly start: (folder: string, config: string) => readonly string[];
}

const PROXIES: Readonly<Record<string, Proxy>> = {
  nginx: {
    file: "facilitator/proxies/nginx.conf",
    needs: [
      /server 127\.0\.0\.1:8402 max_fails=0;\n {2}server 127\.0\.0\.1:8412 max_fails=0;/,
      /proxy_next_upstream error timeout http_503 non_idempotent;/,
      /proxy_next_upstream_tries 2;/,
      /error_page 502 504 = @away;/,
    ],
    start(folder, config) {
      mkdirSync(path.join(folder, "logs"));
      const whole = `daemon off; pid ${folder}/pid; error_log ${folder}/logs/error.log; events {} http { access_log off; ${temporary(folder)} ${config} }`;
      writeFileSync(path.join(folder, "nginx.conf"), whole);
      return ["-p", folder, "-e", `${folder}/logs/error.log`, "-c", `${folder}/nginx.conf`];
    },
  },
  haproxy: {
    file: "facilitator/proxies/haproxy.cfg",
    needs: [
      /timeout queue 5s/,
      /option http-server-close/,
      /default-server check .* maxconn \d+/,
      /retry-on .*conn-failure.* 503/,
      /GET uri \/healthz ver HTTP\/1\.1 hdr Host/,
    ],
    start(folder, config) {
      writeFileSync(path.join(folder, "haproxy.cfg"), config);
      return ["-db", "-f", `${folder}/haproxy.cfg`];
    },
  },
};

const temporary = (folder: string): string =>
  ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${folder}/${name};`).join(" ");

function isInstalled(name: string): boolean {
  try {
    execFileSync(name, ["-v"], { env: { ...process.env, PATH: PATHS }, stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

describe("Facilitator: behind a proxy", function () {
  this.timeout(600_000);
  const installed = Object.keys(PROXIES).filter(isInstalled);
  let postgres: TestPostgres;
  let chains: TwoChains;
  let services: SeveralService[];

  before(async () => {
    if (installed.length === 0) return;
    postgres = await startPostgres();
    chains = await startTwoChains(postgres);
    services = [await chains.start(SETTINGS), await chains.start(SETTINGS)];
  });
  after(async () => {
    await chains?.stop();
    await postgres?.stop();
  });

  for (const [name, { file, needs, start }] of Object.entries(PROXIES)) {
    it(`HD10 ${name}'s configuration takes no process out for an answer`, () => {
      const text = readFileSync(file, "utf8");
      for (const need of needs) expect(text).to.match(need);
    });

    it(`HD10 ${name} survives overload, a chain away and a killed process: every answer is the Facilitator's own`, async function () {
      if (!installed.includes(name)) {
        process.stdout.write(`      ${name} is not installed: its test is skipped\n`);
        return this.skip();
      }
      const folder = mkdtempSync(path.join(tmpdir(), `turnpike-${name}-`));
      const port = await freePort();
      const [one, other] = services as [SeveralService, SeveralService];
      const portOf = ({ url }: { url: string }) => new URL(url).port;
      const config = readFileSync(file, "utf8")
        .replaceAll("127.0.0.1:8402", `127.0.0.1:${portOf(one)}`)
        .replaceAll("127.0.0.1:8412", `127.0.0.1:${portOf(other)}`)
        .replaceAll("127.0.0.1:8080", `127.0.0.1:${port}`);
      const proxy = spawn(name, start(folder, config), { env: { ...process.env, PATH: PATHS }, stdio: "inherit" });
      const url = `http://127.0.0.1:${port}`;
      try {
        await until(async () => isListening(port), `${name} listens`);
        const pay = async (world: ServiceWorld) => {
          const signed = paymentToWire(await world.signPayment({ validForSec: 3_600 }));
          return post(url, signed);
        };
        const settles = (world: ServiceWorld, what: string) =>
          until(async (saw) => {
            const client = createFacilitatorClient({ url });
            const outcome = await client.authorize(paymentToWire(await world.signPayment())).catch(saw);
            return outcome?.kind === "settled" || saw(outcome);
          }, what);
        await settles(chains.a, "a payment before");

        const many = await Promise.all(
          Array.from({ length: 2 * CAPACITY * TIMES }, async () =>
            paymentToWire(await chains.a.signPayment({ validForSec: 3_600 })),
          ),
        );
        const shed = await Promise.all(many.map((signed) => post(url, signed)));
        expect(shed.filter((answer) => !answer.isOwn)).to.deep.equal([]);
        expect(
          shed.some(({ status }) => status === 503),
          "it was too much",
        ).to.equal(true);
        await settles(chains.a, "a payment after the overload");

        chains.cut(chains.b);
        await until(async () => (await pay(chains.b)).status === 503, "the chain is away");
        for (let ask = 0; ask < 20; ask++) expect(await pay(chains.b)).to.include({ isOwn: true });
        await settles(chains.a, "the other chain goes on");
        chains.restore(chains.b);
        await settles(chains.b, "and it is back");

        await other.stop();
        const answers = await Promise.all(Array.from({ length: CAPACITY }, () => pay(chains.a)));
        expect(answers.filter((answer) => !answer.isOwn)).to.deep.equal([]);
        await settles(chains.a, "one process carries on");
        record("proxies", { proxy: name, sent: shed.length, shed: shed.filter(({ status }) => status === 503).length });
      } finally {
        await endOf(proxy);
        rmSync(folder, { recursive: true, force: true });
        services[1] = await chains.start(SETTINGS);
      }
    });
  }

  /** @returns `isOwn`: it is an answer of the Facilitator, and a 503 says when to come again */
  async function post(url: string, signedPayment: unknown): Promise<{ status: number; isOwn: boolean }> {
    const answer = await fetch(`${url}/authorize`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ signedPayment }),
    });
    const text = await answer.text();
    const isRefusal = answer.status >= 400;
    const isOwn = !isRefusal || problemSchema.safeParse(parsed(text)).success;
    return { status: answer.status, isOwn: isOwn && (answer.status !== 503 || answer.headers.has("retry-after")) };
  }
});

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const isListening = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });

async function endOf(proxy: ChildProcess): Promise<void> {
  if (proxy.exitCode !== null) return;
  await new Promise((resolve) => {
    proxy.once("close", resolve);
    proxy.kill("SIGTERM");
  });
}
