/** One gate: a route in a room, with its decision. Adapters call `decide` and translate. */
import { TurnpikeError } from "../protocol";
import type { Answer } from "./answer";
import { requireBookkeeping } from "./bookkeeping";
import { proveCollectable } from "./collectable";
import { type Decision, decide } from "./decide";
import type { GateReports } from "./reports-of-requests";
import type { GateRequest } from "./request";
import type { Room } from "./room";
import { createRoute, type GateOptions } from "./route";
import { answerOfRefusedCharge, type Visit } from "./visit";

/** One route's gate: what every adapter translates. */
export interface Gate {
  /**
   * Rejects with ConfigError when a plan or the contract is not on the chain, a metered route's debits could not be
   * collected, or payments cannot be recorded; with Unavailable when the chain or a shared store cannot be asked.
   */
  ready(): Promise<void>;
  /** Judges a request and claims what it pays with. */
  decide(request: GateRequest): Decision | Promise<Decision>;
  /** The 402 of a charge that the handler could not make. */
  answerOfRefusedCharge(visit: Visit): Promise<Answer>;
  /** whether granted responses get CORS headers */
  readonly cors: boolean;
  /** whether quotes are tied to bodies */
  readonly bindsBody: boolean;
}

/** @throws ConfigError for pricing that could never be charged as written */
export function createGate<Req>(room: Room, options: GateOptions<Req>): Gate {
  const route = createRoute(room, options);
  const { reports } = room;
  async function prove(): Promise<void> {
    await route.ready();
    if (route.metered) await proveCollectable(room, route.planIds);
  }
  void prove().catch((error: unknown) => {
    // Told at start-up, and again by every request (500, or 503 while the chain cannot be asked).
    if (error instanceof TurnpikeError && error.code === "ConfigError") process.emitWarning(error);
  });
  return {
    async ready() {
      await prove();
      await requireBookkeeping(room, route);
    },
    decide: reports
      ? counted(reports, (request) => decide(room, route, request))
      : (request) => decide(room, route, request),
    answerOfRefusedCharge: (visit) => answerOfRefusedCharge(room, route, visit),
    cors: route.cors,
    bindsBody: route.bindsBody,
  };
}

/** The same decision, counted; whoever runs the handler tells how it ended. */
function counted(reports: GateReports, judge: Gate["decide"]): Gate["decide"] {
  return async (request) => {
    let decision: Decision;
    try {
      decision = await judge(request);
    } catch (error) {
      reports.failed(error, request);
      throw error;
    }
    const onEnd = reports.decided(decision, request);
    return onEnd && decision.kind === "allow" ? { ...decision, onEnd } : decision;
  };
}
