// How near the deployed code comes to the size that chains accept.

import { expect } from "chai";
import { artifacts } from "hardhat";
import { itOfDeployedCode } from "./support/deployed-code";

/** EIP-170 accepts 24,576 bytes. The rest is the margin for a mended fault. */
const LIMIT = 22_500;

describe("Code size", () => {
  for (const name of ["Turnpike", "TurnpikeLens", "BatchSettler"]) {
    itOfDeployedCode(`${name} has at most ${LIMIT} bytes`, async () => {
      const { deployedBytecode } = await artifacts.readArtifact(name);
      expect((deployedBytecode.length - 2) / 2).to.be.at.most(LIMIT);
    });
  }
});
