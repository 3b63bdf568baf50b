/** C1 with real processes: two gates, one shared claim store, one proof sent two hundred times in parallel. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { expect } from "chai";
import {
  NOW,
  PAY_TO,
  paidHeaders,
  type SmallFacilitator,
  send,
  startSmallFacilitator,
  TOKEN,
} from "../../../support/gate";
import { RUN_TYPESCRIPT } from "../../../support/typescript";
import type { ClaimPlace } from "./claim-place";

export interface GateAssignment {
  readonly place: ClaimPlace;
  readonly facilitator: { readonly url: string; readonly signers: readonly string[] };
  readonly token: { readonly address: string; readonly name: string; readonly version: string };
  readonly payTo: string;
  readonly publicUrl: string;
  readonly nowSec: number;
}

const ROOT = path.join(__dirname, "../../../..");
const USES = 200;

export async function launchGate(assignment: GateAssignment): Promise<{ child: ChildProcess; url: string }> {
  const script = path.join(__dirname, "gate-process.ts");
  const child = spawn(process.execPath, [...RUN_TYPESCRIPT, script, JSON.stringify(assignment)], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = (await once(child.stdout as NodeJS.ReadableStream, "data")) as [Buffer];
  return { child, url: line.toString().trim() };
}

export function testOneGrant(name: string, place: () => ClaimPlace): void {
  it(`C1 are granted once by two gate processes on ${name}, of ${USES} parallel uses of one proof`, async () => {
    const facilitator: SmallFacilitator = await startSmallFacilitator();
    const assignment = {
      place: place(),
      facilitator: { url: facilitator.url, signers: [facilitator.signer] },
      token: { address: TOKEN, name: "Test USD", version: "1" },
      payTo: PAY_TO,
      publicUrl: "https://api.example",
      nowSec: NOW,
    };
    const gates = await Promise.all([launchGate(assignment), launchGate(assignment)]);
    try {
      const headers = await paidHeaders(`${gates[0]?.url}/paid`);
      const answers = await Promise.all(
        Array.from({ length: USES }, (_, i) => send(`${gates[i % gates.length]?.url}/paid`, { headers })),
      );
      const granted = answers.filter(
        ({ status, headers: answered }) => status === 200 && !answered["idempotency-replayed"],
      );
      expect(granted).to.have.length(1);
      for (const { status } of answers) expect(status).to.be.oneOf([200, 409]);
      const asked = facilitator.calls.filter(({ path: where }) => where === "/proofs/verify");
      expect(asked, "refused requests make no call").to.have.length(1);
      for (const { url } of gates) {
        const again = await send(`${url}/paid`, { headers });
        expect([again.text, again.headers["idempotency-replayed"]], "HA6 each replays").to.deep.equal([
          "granted",
          "true",
        ]);
      }
    } finally {
      for (const { child } of gates) child.kill("SIGKILL");
      await facilitator.stop();
    }
  }).timeout(120_000);
}
