/** The contracts and a test token on a test's own chain. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Chain } from "../../scripts/sandbox/chain";
import { deployAll as deployInto, type LocalContracts } from "../../scripts/sandbox/contracts";

export type { LocalContracts } from "../../scripts/sandbox/contracts";

/** Leaves no record behind: a test's chain is gone when the test is. */
export async function deployAll(chain: Chain): Promise<LocalContracts> {
  const directory = mkdtempSync(path.join(tmpdir(), "turnpike-deployments-"));
  try {
    return await deployInto(chain, directory);
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}
