/**
 * Writes deployments/standard-json/<contract>.json, the compiler's whole input. With the solc version that
 * deployments/<network>.json names, anyone can reproduce the deployed bytes.
 *     npx hardhat run scripts/standard-json.ts
 */
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type Artifact, readArtifact, type StandardInput } from "./deploy/artifact";
import { DEPLOYMENTS } from "./deploy/record";

export const CONTRACTS = [
  ["contracts/Turnpike.sol", "Turnpike"],
  ["contracts/BatchSettler.sol", "BatchSettler"],
] as const;

export const standardJsonFile = (name: string): string => path.join(DEPLOYMENTS, "standard-json", `${name}.json`);

/** Only the sources of the contract: tests and other contracts may change without an effect on it. */
export function standardInputOf({ input, sources }: Artifact): StandardInput {
  return {
    language: input.language,
    sources: Object.fromEntries([...sources].sort().map((name) => [name, { content: contentOf(input, name) }])),
    settings: { ...input.settings, outputSelection: { "*": { "*": ["abi", "evm.bytecode.object"] } } },
  };
}

function contentOf(input: StandardInput, name: string): string {
  const source = input.sources[name];
  if (!source) throw new Error(`The build lacks the source ${name}: run npx hardhat compile --force`);
  return source.content;
}

if (require.main === module) {
  mkdirSync(path.join(DEPLOYMENTS, "standard-json"), { recursive: true });
  for (const [source, name] of CONTRACTS) {
    const input = standardInputOf(readArtifact(source, name));
    writeFileSync(standardJsonFile(name), `${JSON.stringify(input, null, 2)}\n`);
  }
}
