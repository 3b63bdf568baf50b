/**
 * What an operator has at the end of docs/operators: processes by chain and role for two chains, a database with a
 * replica, alerts, and payments on both chains. The clock of the second chain is an hour ahead of the first one's.
 */
import { expect } from "chai";
import type { Readiness } from "turnpike/facilitator";
import { type Address, addressOfKey, type Hex } from "turnpike/protocol";
import { testKey } from "../../support/chain";
import { fund, until } from "../../support/facilitator";
import { type ChaosRpc, startChaosRpc } from "../chaos/support/rpc";
import { type Receiver, startReceiver } from "../webhooks/support/receiver";
import { apiKeyOf, NETWORK_A, NETWORK_B, startTwoChains, type TwoChains } from "./chains";
import { OperatedDeployment } from "./operated";
import { buildProgram, type Ended, type Program } from "./processes";
import { Alerts, startPrometheus } from "./prometheus";
import { type ReplicatedDatabase, startReplicatedDatabase } from "./replicated";
import type { ServiceWorld } from "./service";
import { SteadyPayments } from "./steady-payments";

export const PATIENCE_MS = 120_000;
const HOUR_SEC = 3_600;
/** Of a chain as they are: two chains and six processes share the machine with everything else. */
export const BLOCK_MS = 1_000;
const PAYERS = 2;
const AGREE = "database and chain agree";

const workersOf = (network: string): string =>
  ["relayer", "indexer", "renewals", "webhooks"].map((role) => `${role}:${network}`).join();

export class OperatorPath {
  readonly #stops: (() => unknown)[] = [];
  #program!: Program;
  #settings: Readonly<Record<string, string>> = {};
  chains!: TwoChains;
  a!: ServiceWorld;
  b!: ServiceWorld;
  database!: ReplicatedDatabase;
  /** the second node of the first chain */
  spare!: ChaosRpc;
  receiver!: Receiver;
  deployment!: OperatedDeployment;
  alerts!: Alerts;
  relayer!: Address;
  onA!: SteadyPayments;
  onB!: SteadyPayments;
  /** of a provider, for every chain */
  key = "";
  /** whether the start has succeeded */
  isUp = false;

  /** Follows docs/operators/run.md with one chain, then docs/operators/chains.md#add-a-chain while payments run. */
  async start(): Promise<void> {
    await this.#startParts();
    expect((await this.run("migrate")).status, "migrate").to.equal(0);
    expect((await this.run("doctor")).stdout, "doctor").not.to.match(/^fail/m);
    const { deployment, onA, onB } = this;
    deployment.settings = this.settingsFor(NETWORK_A);
    for (const name of ["api 1", "api 2"]) await deployment.start(name, "api");
    for (const name of ["a 1", "a 2"]) await deployment.start(name, workersOf(NETWORK_A));
    await this.#receiveWebhooks();
    await onA.begin();
    await onA.more();
    await this.addSecondChain();
    await onB.begin();
    await onB.more();
    await Promise.all([onA.end(), onB.end()]);
    this.alerts = new Alerts(await startPrometheus(deployment.names.map((name) => deployment.at(name).metrics)));
    this.#stops.push(() => this.alerts.stop());
    await this.requireNothingLost();
    this.isUp = true;
  }

  async stop(): Promise<void> {
    for (const payments of [this.onA, this.onB]) await payments?.end().catch(() => undefined);
    for (const end of this.#stops.splice(0).reverse()) await end();
  }

  async addSecondChain(): Promise<void> {
    const { deployment } = this;
    deployment.settings = this.#settings;
    for (const name of ["api 1", "api 2"]) await deployment.restart(name);
    await deployment.start("b 1", workersOf(NETWORK_B));
    await until(() => this.isReady(NETWORK_B), "the added chain is ready", PATIENCE_MS);
  }

  settingsFor(networks: string): Readonly<Record<string, string>> {
    return { ...this.#settings, CHAINS: networks };
  }

  run(...args: readonly string[]): Promise<Ended> {
    return this.#program.run(args, this.#settings);
  }

  async readiness(network: string): Promise<Readiness> {
    const { url } = this.deployment.at("api 2").process;
    return (await (await fetch(`${url}/readyz?network=${network}`)).json()) as Readiness;
  }

  async isReady(network: string): Promise<boolean> {
    return (await this.readiness(network)).ready;
  }

  /** Payments on both chains while something breaks and is mended; afterwards all is as if nothing had. */
  async during(broken: () => Promise<void>): Promise<void> {
    const { onA, onB } = this;
    await Promise.all([onA.begin(), onB.begin()]);
    await Promise.all([onA.more(), onB.more()]);
    try {
      await broken();
      await Promise.all([onA.more(), onB.more()]);
    } finally {
      await Promise.all([onA.end(), onB.end()]);
    }
    await this.requireNothingLost();
  }

  /** Each payment is one transfer, and has its proof and its webhook. */
  async requireNothingLost(): Promise<void> {
    const { onA, onB } = this;
    for (const payments of [onA, onB]) {
      await payments.requireOnce();
      await payments.requireProofs(2);
    }
    await until(async () => this.unsent().length === 0, "every payment has its webhook", PATIENCE_MS);
  }

  async requireAgreement(): Promise<void> {
    const { stdout } = await this.run("reconcile");
    expect(stdout).to.equal(`${NETWORK_A}: ${AGREE}\n${NETWORK_B}: ${AGREE}\n`);
  }

  /** Returns the settled payments whose webhook has not arrived. */
  unsent(): readonly Hex[] {
    const arrived = new Set(this.receiver.received.flatMap(({ body }) => settledSubject(body)));
    return [...this.onA.ids, ...this.onB.ids].filter((id) => !arrived.has(id));
  }

  call(path: string, body?: unknown): Promise<Response> {
    const { url } = this.deployment.at("api 2").process;
    const headers = { "content-type": "application/json", authorization: `Bearer ${this.key}` };
    return fetch(
      url + path,
      body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) },
    );
  }

  async #startParts(): Promise<void> {
    const kept = <T extends { stop(): unknown }>(part: T): T => {
      this.#stops.push(() => part.stop());
      return part;
    };
    this.database = kept(await startReplicatedDatabase());
    this.chains = kept(await startTwoChains(undefined, BLOCK_MS));
    ({ a: this.a, b: this.b } = this.chains);
    await this.b.chain.advance(HOUR_SEC);
    this.spare = kept(await startChaosRpc(this.a.chain.rpcUrl));
    this.receiver = kept(await startReceiver());
    const program = buildProgram();
    this.#stops.push(() => program.remove());
    this.#program = program;
    const relayerKey = testKey(`operator ${Math.random()}`) as Hex;
    this.relayer = addressOfKey(relayerKey);
    for (const { chain } of [this.a, this.b]) await fund(chain, this.relayer);
    const {
      LOCAL_31337_RELAYER_KEYS: _a,
      LOCAL_31338_RELAYER_KEYS: _b,
      ...settings
    } = this.chains.env({
      DATABASE_URL: this.database.url,
      DATABASE_POOL_SIZE: "4",
      RELAYER_KEYS: relayerKey,
      LANE_LEASE_MS: "7000",
      AUTHORIZE_WAIT_MS: "2000",
      FINALITY_DEPTH: "64",
      POLL_MS: "250",
      LOCAL_31337_POLL_MS: "250",
      LOCAL_31338_POLL_MS: "250",
    });
    const nodes = `${settings.LOCAL_31337_RPC_URLS},${this.spare.url}`;
    this.#settings = { ...settings, LOCAL_31337_RPC_URLS: nodes };
    this.deployment = new OperatedDeployment(program, this.#settings);
    this.#stops.push(() => this.deployment.kill());
    [this.onA, this.onB] = [this.#paymentsOn(this.a), this.#paymentsOn(this.b)];
  }

  #paymentsOn(world: ServiceWorld): SteadyPayments {
    const payTo = this.a.provider.address as Address;
    return new SteadyPayments({ world, payTo, clients: () => this.deployment.clients(), payers: PAYERS });
  }

  async #receiveWebhooks(): Promise<void> {
    this.key = await apiKeyOf(this.deployment.at("api 2").client, this.a.provider);
    const made = await this.call("/webhook-endpoints", { url: this.receiver.url, description: "" });
    expect(made.status, await made.text()).to.equal(201);
  }
}

function settledSubject(body: string): string[] {
  const { type, subject } = JSON.parse(body) as { type: string; subject: string };
  return type === "payment.settled" ? [subject] : [];
}
