// loadFixture of the chain in this process, whose clock a revert puts back as well.

import { loadFixture as revert, time } from "@nomicfoundation/hardhat-network-helpers";

/**
 * The fixture, with the chain's clock one second after its last block. Hardhat's own leaves the clock at twice the
 * seconds since the fixture was made, which on a slow machine exceed what a test signs for.
 */
export async function loadFixture<T>(fixture: () => Promise<T>): Promise<T> {
  const value = await revert(fixture);
  await time.increaseTo((await time.latest()) + 1);
  return value;
}
