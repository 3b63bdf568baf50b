/** Gates of every store, replay and order of settlement, for answers that are compared with the same handler's without one. */
import type { Server } from "node:http";
import fc from "fast-check";
import type { FastifyInstance, RouteHandlerMethod } from "fastify";
import type { ClaimStore, Provider } from "turnpike/gate";
import { fastifyGate } from "turnpike/gate/fastify";
import type { AcceptEntryWire, PaymentRequiredWire } from "turnpike/protocol";
import {
  headerOf,
  ONE_TIME,
  proofOf,
  RESERVING,
  type SmallFacilitator,
  startSmallFacilitator,
  testProvider,
} from "../../../support/gate";
import { v1Headers } from "./standard";

/** How many orders are tried, and which. */
export const RUNS = Number(process.env.ANSWER_RUNS ?? 25);
export const SEED = Number(process.env.ANSWER_SEED ?? 37);

/** Makes fresh, empty stores by name. */
export type Stores = Readonly<Record<string, () => ClaimStore>>;

const ORDERS = ["before", "after"] as const;

export interface Way {
  readonly store: string;
  readonly replay: object | false;
  readonly order: (typeof ORDERS)[number];
  readonly isProof: boolean;
}

/** By the path at which it is mounted. */
export type Gates = ReadonlyMap<string, readonly [Provider, object]>;

/** Mounts `/free/:id` as it is, and each gate at its path, under Fastify. */
export async function fastifyServer(gates: Gates, app: FastifyInstance, handler: RouteHandlerMethod): Promise<Server> {
  for (const [at, [own, options]] of gates) {
    app.get(`/${at}/:id`, { preHandler: fastifyGate(own.gate(options as never)) }, handler);
  }
  app.get("/free/:id", handler);
  await app.ready();
  return app.server;
}

export const nameOf = ({ store, replay, order }: Omit<Way, "isProof">) =>
  `${store}-${replay ? "kept" : "not"}-${order}`;

/** Whether the payment settles after its handler. */
export const isWithheld = ({ order, isProof }: Way): boolean => order === "after" && !isProof;

export class AnswerGates {
  readonly gates: Gates;
  readonly ways: fc.Arbitrary<Way>;
  readonly #facilitator: SmallFacilitator;

  private constructor(facilitator: SmallFacilitator, gates: Gates, stores: Stores) {
    this.#facilitator = facilitator;
    this.gates = gates;
    this.ways = fc.record({
      store: fc.constantFrom(...Object.keys(stores)),
      replay: fc.constantFrom<object | false>({}, false),
      order: fc.constantFrom(...ORDERS),
      isProof: fc.boolean(),
    });
  }

  static async open(stores: Stores): Promise<AnswerGates> {
    const facilitator = await startSmallFacilitator();
    facilitator.supported = RESERVING;
    const gates = new Map<string, readonly [Provider, object]>();
    for (const [store, make] of Object.entries(stores)) {
      for (const replay of [{}, false] as const) {
        const provider = testProvider(facilitator, { replay, claims: make(), publicUrl: "https://api.example" });
        await provider.ready();
        for (const order of ORDERS) {
          gates.set(nameOf({ store, replay, order }), [provider, { pricing: ONE_TIME, settle: order }]);
        }
      }
    }
    return new AnswerGates(facilitator, gates, stores);
  }

  /** Returns how many payments it was asked to settle since the last call. A gate that got no answer asks again for the same one. */
  takeSettled(): number {
    const asked = this.#facilitator.calls.splice(0).filter(({ path }) => path === "/settle");
    return new Set(asked.map(({ body }) => JSON.stringify((body as { paymentPayload: unknown }).paymentPayload))).size;
  }

  async payWith({ isProof }: Way, { accepts: [entry] }: PaymentRequiredWire): Promise<Record<string, string>> {
    return isProof ? headerOf(proofOf(entry as never)) : v1Headers(entry as AcceptEntryWire);
  }

  async close(): Promise<void> {
    for (const provider of new Set([...this.gates.values()].map(([each]) => each))) await provider.close();
    await this.#facilitator.stop();
  }
}
