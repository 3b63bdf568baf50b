/** Deploys the contracts and a test token on a local chain, with the same script that serves every other chain. */
import { Contract, ContractFactory, type Wallet } from "ethers";
import type { Address } from "turnpike/protocol";
import { deploy } from "../deploy";
import { readArtifact } from "../deploy/artifact";
import type { Chain } from "./chain";

export const TEST_TOKEN = { name: "Test USD", symbol: "tUSD", version: "1", decimals: 6 } as const;

const TOKEN_ABI = [
  "constructor(string,string,string,uint8)",
  "function mint(address,uint256)",
  "function balanceOf(address) view returns (uint256)",
];

export interface LocalContracts {
  readonly chainId: number;
  readonly network: string;
  readonly turnpike: Address;
  readonly batchSettler: Address;
  readonly token: Address;
  readonly tokenName: string;
  readonly tokenVersion: string;
  /** the first block that can contain one of their events */
  readonly block: number;
  /** The faucet: anyone may mint; amounts in base units. */
  mint(to: string, amount: bigint): Promise<void>;
  balanceOf(account: string): Promise<bigint>;
}

/** @param directory folder of deployments/<network>.json, owned by the caller */
export async function deployAll(chain: Chain, directory: string): Promise<LocalContracts> {
  const deployer = await chain.wallet("deployer");
  const record = await deploy({ signer: deployer, isDevnet: true, directory });
  const artifact = readArtifact("contracts/test/TestToken.sol", "TestToken");
  const { name, symbol, version, decimals } = TEST_TOKEN;
  const created = await new ContractFactory(TOKEN_ABI, artifact.initCode, deployer).deploy(
    name,
    symbol,
    version,
    decimals,
  );
  await created.waitForDeployment();
  return {
    chainId: record.chainId,
    network: record.network,
    turnpike: record.turnpike.address as Address,
    batchSettler: record.batchSettler.address as Address,
    block: record.turnpike.block ?? 0,
    ...tokenAt((await created.getAddress()) as Address, deployer),
  };
}

/** @param minter pays for the transactions that mint */
export function tokenAt(address: Address, minter: Wallet) {
  const token = new Contract(address, TOKEN_ABI, minter);
  return {
    token: address,
    tokenName: TEST_TOKEN.name,
    tokenVersion: TEST_TOKEN.version,
    async mint(to: string, amount: bigint): Promise<void> {
      await (await token.getFunction("mint")(to, amount)).wait();
    },
    balanceOf: (account: string) => token.getFunction("balanceOf")(account) as Promise<bigint>,
  };
}
