// The double of USDC behind its proxy, for tests and measurements of gas.

import { ethers } from "hardhat";
import type { ProxiedDollar } from "../../sdk/src/chain/generated";

/** No test acts as the proxy's admin. */
const ADMIN = `0x${"ad".repeat(20)}`;

/** A dollar at the address of its proxy. */
export async function deployDollar(name: string): Promise<ProxiedDollar> {
  const DollarSignatures = await (await ethers.deployContract("DollarSignatures")).getAddress();
  const implementation = await ethers.deployContract("ProxiedDollar", { libraries: { DollarSignatures } });
  const proxy = await ethers.deployContract("DollarProxy", [implementation, ADMIN]);
  const dollar = await ethers.getContractAt("ProxiedDollar", proxy);
  await dollar.initialize(name);
  return dollar;
}
