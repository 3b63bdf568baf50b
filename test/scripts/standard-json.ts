import { readFileSync } from "node:fs";
import { expect } from "chai";
import { keccak256, toUtf8Bytes } from "ethers";
import { readArtifact } from "../../scripts/deploy/artifact";
import { CONTRACTS, standardInputOf, standardJsonFile } from "../../scripts/standard-json";

const solc: { compile(input: string): string } = require("solc");
const AGAIN = "contracts changed: run npx hardhat run scripts/standard-json.ts and commit what it writes";

describe("the committed standard JSON input", function () {
  this.timeout(180_000);
  for (const [source, name] of CONTRACTS) {
    it(`is what ${name} is compiled from, and makes the same bytes again`, () => {
      const artifact = readArtifact(source, name);
      const committed = readFileSync(standardJsonFile(name), "utf8");
      const current = `${JSON.stringify(standardInputOf(artifact), null, 2)}\n`;
      expect(keccak256(toUtf8Bytes(committed)), AGAIN).to.equal(keccak256(toUtf8Bytes(current)));
      const output = JSON.parse(solc.compile(committed));
      const { object } = output.contracts[source][name].evm.bytecode;
      expect(keccak256(`0x${object}`)).to.equal(artifact.initCodeHash);
    });
  }
});
