/**
 * `facilitator doctor`: checks everything that the service depends on and says what to do. The exit status is not 0
 * when the service cannot run.
 */
import { isTurnpikeError } from "turnpike/protocol";
import type { Finding } from "../../chain/contract-checks";
import { openChain } from "../../chain/open";
import type { FacilitatorConfig } from "../../config";
import { type ChainConfigs, chainsOf, strayVariables } from "../../config/chains";
import { pendingMigrations } from "../../db/migrate";
import { createLog, secretsOf } from "../../telemetry/log";
import { examineArchive } from "./archive";
import { examineChain } from "./chain";
import { examineDatabase, examineReading } from "./database";
import { examineKeys } from "./keys";

/**
 * @param chain one of `CHAINS`; absent: each is checked
 * @returns the process's exit status
 */
export async function doctorCommand(
  env: Readonly<Record<string, string | undefined>>,
  chain?: string,
): Promise<number> {
  let configs: ChainConfigs;
  try {
    configs = chainsOf(env, chain);
  } catch (error) {
    if (!isTurnpikeError(error)) throw error;
    for (const detail of error.message.split("\n"))
      print({ level: "fail", subject: "settings", detail, remedy: "see docs/reference/settings.md" });
    return 1;
  }
  for (const name of strayVariables(env))
    print({
      level: "warn",
      subject: "settings",
      detail: `${name} belongs to no chain of CHAINS, and is not read`,
      remedy: "correct its name, or remove it",
    });
  const isAlone = configs.length === 1 && chain === undefined;
  let isFailed = false;
  for (const config of configs) {
    const printOf = isAlone ? print : (finding: Finding) => print(finding, config.network.name);
    isFailed = (await examine(config, printOf)).some(({ level }) => level === "fail") || isFailed;
  }
  return isFailed ? 1 : 0;
}

async function examine(config: FacilitatorConfig, print: (finding: Finding) => void): Promise<readonly Finding[]> {
  print({ level: "ok", subject: "settings", detail: `roles ${config.roles.join(", ")} on ${config.network.name}` });
  const log = createLog({ level: "silent", secrets: secretsOf(config) });
  const nowMs = () => Date.now();
  const found: Finding[] = [];
  const collect = (findings: readonly Finding[]): void => {
    for (const finding of findings) print(finding);
    found.push(...findings);
  };
  collect(await examineChain({ config, log, nowMs }));
  const chain = await openChain({ config, log }).catch((error: unknown) => {
    if (!isTurnpikeError(error)) throw error;
    const remedy = "fix the failures above, then run doctor again";
    collect([
      { level: "fail", subject: "RELAYER_KEYS", detail: `balances were not checked: ${error.message}`, remedy },
    ]);
    return undefined;
  });
  const { findings, store } = await examineDatabase(config, nowMs);
  collect(findings);
  collect(await examineArchive(config));
  try {
    const isMigrated = store !== undefined && (await pendingMigrations(store.db)).length === 0;
    if (isMigrated && chain && store) collect(await examineReading(config, chain, store));
    collect(await examineKeys({ config, chain, store: isMigrated ? store : undefined }));
  } finally {
    await store?.close();
  }
  return found;
}

/** @param chain one of several, whose finding it is */
function print({ level, subject, detail, remedy }: Finding, chain?: string): void {
  process.stdout.write(
    `${level.padEnd(4)} ${chain ? `${chain}: ` : ""}${subject}: ${detail.replace(/\.$/, "")}${remedy ? `. Remedy: ${remedy}` : ""}\n`,
  );
}
