/** A chain, a Facilitator, a provider, and a folder of its own for an agent's ledger. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { closeAll } from "./servers";
import { Chain, type FacilitatorStandIn, type ProviderStandIn, startFacilitator, startProvider } from "./world";

export interface LedgerWorld {
  readonly chain: Chain;
  readonly facilitator: FacilitatorStandIn;
  readonly provider: ProviderStandIn;
  readonly folder: string;
  /** for the ledger; does not exist yet */
  readonly file: string;
}

export async function startLedgerWorld(): Promise<LedgerWorld> {
  const chain = new Chain();
  const facilitator = await startFacilitator(chain);
  const provider = await startProvider(chain, facilitator.url);
  const folder = await mkdtemp(join(tmpdir(), "turnpike-ledger-"));
  return { chain, facilitator, provider, folder, file: join(folder, "agent.jsonl") };
}

export async function stopLedgerWorld({ folder }: Pick<LedgerWorld, "folder">): Promise<void> {
  await closeAll();
  await rm(folder, { recursive: true, force: true });
}
