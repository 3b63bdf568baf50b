/** Writes `deployments/<network>.json`: the addresses of the contracts on one chain. Only scripts/deploy.ts uses it. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import { networkOfChain } from "turnpike/protocol";

const ROOT = path.resolve(__dirname, "../..");
export const DEPLOYMENTS = path.join(ROOT, "deployments");
const SDK_LIST = path.join(ROOT, "sdk/src/chain/deployed.json");
/** What a wallet shows for Turnpike's typed data (ERC-7730). */
export const CLEAR_SIGNING = path.join(DEPLOYMENTS, "clear-signing", "eip712-turnpike.json");

export interface ContractRecord {
  readonly address: string;
  /** absent when the contract was already deployed and the node keeps no old states */
  readonly block?: number;
  /** absent when someone else deployed it */
  readonly transaction?: string;
  readonly initCodeHash: string;
}

export interface DeploymentRecord {
  readonly network: string;
  readonly chainId: number;
  readonly compiler: string;
  readonly turnpike: ContractRecord;
  /** made by Turnpike's creation */
  readonly lens: ContractRecord;
  readonly batchSettler: ContractRecord;
}

export function recordFile(chainId: number, directory = DEPLOYMENTS): string {
  return path.join(directory, `${networkOfChain(chainId).name}.json`);
}

export function readRecord(chainId: number, directory = DEPLOYMENTS): DeploymentRecord | undefined {
  const file = recordFile(chainId, directory);
  return existsSync(file) ? (JSON.parse(readFileSync(file, "utf8")) as DeploymentRecord) : undefined;
}

export function writeRecord(record: DeploymentRecord, directory = DEPLOYMENTS): string {
  const file = recordFile(record.chainId, directory);
  mkdirSync(directory, { recursive: true });
  writeJson(file, record);
  return file;
}

/** Rewrites the deployments that the SDK and the clear-signing descriptor list, from the records of permanent chains. */
export function publishDeployments(): void {
  const names = readdirSync(DEPLOYMENTS).filter((name) => name.endsWith(".json") && !name.startsWith("local-"));
  const entries = names.sort().map((name) => {
    const record = JSON.parse(readFileSync(path.join(DEPLOYMENTS, name), "utf8")) as DeploymentRecord;
    const { chainId, turnpike, batchSettler } = record;
    return { chainId, turnpike: turnpike.address, batchSettler: batchSettler.address };
  });
  writeJson(SDK_LIST, entries);
  const descriptor = JSON.parse(readFileSync(CLEAR_SIGNING, "utf8"));
  descriptor.context.eip712.deployments = entries.map(({ chainId, turnpike }) => ({ chainId, address: turnpike }));
  writeJson(CLEAR_SIGNING, descriptor);
}

function writeJson(file: string, value: unknown): void {
  writeFileSync(`${file}.new`, `${JSON.stringify(value, null, 2)}\n`);
  renameSync(`${file}.new`, file);
}
