/**
 * Finds Turnpike's deployment on each chain. Known deployments are generated; any other is configured by its addresses.
 */
import { type Address, ConfigError, checksum, configuredAddress, type Hex, networkOfChain } from "../protocol";
import { aNumber, fieldsOf, kindOf } from "../protocol/arguments";
import deployed from "./deployed.json";

/** The contracts' addresses on one chain. */
export interface Deployment {
  readonly chainId: number;
  /** the network's name, as on the wire */
  readonly network: string;
  readonly turnpike: Address;
  readonly batchSettler?: Address;
}

interface DeployedEntry {
  readonly chainId: number;
  readonly turnpike: string;
  readonly batchSettler?: string;
}

const known: readonly Deployment[] = (deployed as readonly DeployedEntry[]).map((entry) => ({
  chainId: entry.chainId,
  network: networkOfChain(entry.chainId).name,
  turnpike: checksum(entry.turnpike),
  ...(entry.batchSettler ? { batchSettler: checksum(entry.batchSettler) } : {}),
}));

/** Returns the deployment that this package knows on a chain; undefined where it knows none. */
export function findDeployment(chainId: number): Deployment | undefined {
  return known.find((deployment) => deployment.chainId === chainId);
}

/**
 * The deployment to trust on a chain: the address that was configured, else the known one.
 * @throws ConfigError when there is neither, or the address is malformed
 */
export function requireDeployment(wanted: { chainId: number; turnpike?: Hex | string | undefined }): Deployment {
  aNumber(fieldsOf(wanted, "wanted").chainId, "wanted.chainId");
  const found = findDeployment(wanted.chainId);
  if (wanted.turnpike === undefined) {
    if (found) return found;
    throw new ConfigError(
      `turnpike is not set, and no deployment is known on chain ${wanted.chainId}: give the contract's address`,
    );
  }
  const malformed = `turnpike is ${typeof wanted.turnpike === "string" ? `"${wanted.turnpike}"` : kindOf(wanted.turnpike)}: not an address`;
  const turnpike = configuredAddress(wanted.turnpike, "turnpike", malformed);
  return found?.turnpike === turnpike
    ? found
    : { chainId: wanted.chainId, network: networkOfChain(wanted.chainId).name, turnpike };
}
