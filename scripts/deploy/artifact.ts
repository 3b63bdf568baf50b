/** Reads a contract's build from Hardhat's artifacts: the bytes to send and the bytes to expect. */
import { readFileSync } from "node:fs";
import path from "node:path";
import { getBytes, hexlify, keccak256 } from "ethers";

const ROOT = path.resolve(__dirname, "../..");

interface BuildInfo {
  readonly solcLongVersion: string;
  readonly input: StandardInput;
  readonly output: { readonly contracts: Readonly<Record<string, Readonly<Record<string, CompiledContract>>>> };
}
export interface StandardInput {
  readonly language: string;
  readonly sources: Readonly<Record<string, { readonly content: string }>>;
  readonly settings: Readonly<Record<string, unknown>>;
}
interface Range {
  readonly start: number;
  readonly length: number;
}
interface CompiledContract {
  readonly metadata: string;
  readonly evm: {
    readonly bytecode: { readonly object: string };
    readonly deployedBytecode: {
      readonly object: string;
      readonly immutableReferences?: Readonly<Record<string, readonly Range[]>>;
    };
  };
}

export interface Artifact {
  readonly name: string;
  readonly initCode: string;
  readonly initCodeHash: string;
  readonly compiler: string;
  /** every source of the contract, by its name in the standard JSON input */
  readonly sources: readonly string[];
  readonly input: StandardInput;
  /** Returns whether `code` is this contract's runtime code, for any values of its immutables. */
  isRuntimeCode(code: string): boolean;
}

/** @param source the contract's file, as in `contracts/Turnpike.sol` */
export function readArtifact(source: string, name: string): Artifact {
  const debug = readJson<{ buildInfo: string }>(path.join(ROOT, "artifacts", source, `${name}.dbg.json`));
  const build = readBuild(path.resolve(ROOT, "artifacts", source, debug.buildInfo));
  const compiled = build.output.contracts[source]?.[name];
  if (!compiled) throw new Error(`artifacts/ does not hold ${name}: run npx hardhat compile`);
  const { bytecode, deployedBytecode } = compiled.evm;
  const initCode = `0x${bytecode.object}`;
  const ranges = Object.values(deployedBytecode.immutableReferences ?? {}).flat();
  const expected = masked(`0x${deployedBytecode.object}`, ranges);
  return {
    name,
    initCode,
    initCodeHash: keccak256(initCode),
    compiler: build.solcLongVersion,
    sources: Object.keys((JSON.parse(compiled.metadata) as { sources: object }).sources),
    input: build.input,
    isRuntimeCode: (code) => masked(code, ranges) === expected,
  };
}

/** By file, whose name is the hash of what was compiled. One has megabytes and serves many contracts. */
const builds = new Map<string, WeakRef<BuildInfo>>();

function readBuild(file: string): BuildInfo {
  const build = builds.get(file)?.deref() ?? readJson<BuildInfo>(file);
  builds.set(file, new WeakRef(build));
  return build;
}

// EIP-712 stores chain id, address and domain separator in the code, so these bytes differ from chain to chain.
function masked(code: string, ranges: readonly Range[]): string {
  const bytes = getBytes(code);
  for (const { start, length } of ranges) bytes.fill(0, start, start + length);
  return hexlify(bytes);
}

function readJson<T>(file: string): T {
  return JSON.parse(readFileSync(file, "utf8")) as T;
}
