/** A deployment as docs/operators has it: processes by chain and role on one database, each with its metrics. */
import { expect } from "chai";
import { createFacilitatorClient, type FacilitatorClient } from "turnpike/facilitator";
import { freePort } from "../../support/chain";
import type { Program, ServiceProcess } from "./processes";

/** A frozen process is given up soon. */
const CLIENT_TIMEOUT_MS = 4_000;

/** One process and its place: a process that is started again has the same roles and address of metrics. */
export interface Place {
  readonly roles: string;
  readonly metrics: string;
  readonly process: ServiceProcess;
  readonly client: FacilitatorClient;
}

export class OperatedDeployment {
  readonly #program: Program;
  readonly #places = new Map<string, Place>();
  /** of every process */
  settings: Readonly<Record<string, string>>;

  constructor(program: Program, settings: Readonly<Record<string, string>>) {
    this.#program = program;
    this.settings = settings;
  }

  /** @param name of its place, which stays @param roles default: those that it had */
  async start(name: string, roles = this.at(name).roles): Promise<Place> {
    const metrics = this.#places.get(name)?.metrics ?? `127.0.0.1:${await freePort()}`;
    const env = { ...this.settings, METRICS_PORT: metrics.split(":")[1] ?? "" };
    const process = await this.#program.start(env, roles);
    const client = createFacilitatorClient({ url: process.url, timeoutMs: CLIENT_TIMEOUT_MS });
    const place = { roles, metrics, process, client };
    this.#places.set(name, place);
    return place;
  }

  at(name: string): Place {
    const place = this.#places.get(name);
    if (!place) throw new Error(`nothing was started as ${name}`);
    return place;
  }

  get names(): readonly string[] {
    return [...this.#places.keys()];
  }

  /** of the processes with the API */
  clients(): readonly FacilitatorClient[] {
    return [...this.#places.values()].filter(({ roles }) => roles.startsWith("api")).map(({ client }) => client);
  }

  /** As an operator stops one. It keeps its place. */
  async end(name: string): Promise<void> {
    expect(await this.at(name).process.stop(), `${name} ends`).to.equal(0);
  }

  async restart(name: string): Promise<void> {
    await this.end(name);
    await this.start(name);
  }

  /** Returns the name of the process that reads this chain. */
  async holderOf(network: string): Promise<string> {
    const line = new RegExp(`^turnpike_lease_held\\{lease="indexer",[^}]*chain="${network}"\\} 1$`, "m");
    for (const name of this.names) {
      const text = await fetch(`http://${this.at(name).metrics}/metrics`).then((answer) => answer.text());
      if (line.test(text)) return name;
    }
    throw new Error(`no process reads ${network}`);
  }

  async kill(): Promise<void> {
    for (const { process } of this.#places.values()) await process.kill();
  }
}
