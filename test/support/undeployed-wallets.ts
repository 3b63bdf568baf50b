/** Smart wallets that are not deployed yet: a factory, their addresses, and signatures in the wrapper of ERC-6492. */
import { AbiCoder, Contract, ContractFactory, Interface, type Signer } from "ethers";
import { type Address, type Hex, randomBytes, toHex } from "turnpike/protocol";
import { readArtifact } from "../../scripts/deploy/artifact";

export type FactoryKind =
  | ("WalletFactory" | "TrapFactory" | "BurnerFactory" | "FickleFactory")
  | ("LiarFactory" | "BombFactory" | "ReentrantFactory" | "EagerFactory");

export interface TestFactory {
  readonly address: Address;
  /** Names a wallet of the owner; each call another one. */
  wallet(owner: Address): Promise<UndeployedWallet>;
  /** Arms a TrapFactory, so that it burns the gas of every call, or disarms it. */
  arm(isArmed: boolean): Promise<void>;
}

export interface UndeployedWallet {
  readonly address: Address;
  /** the factory's call that deploys it */
  readonly deployment: { readonly factory: Address; readonly data: Hex };
}

const FACTORY = new Interface([
  "function addressOf(address owner, bytes32 salt) view returns (address)",
  "function create(address owner, bytes32 salt) returns (address)",
  "function arm(uint8 trap)",
]);

export async function deployFactory(signer: Signer, kind: FactoryKind): Promise<TestFactory> {
  const { initCode } = readArtifact("contracts/test/TestFactories.sol", kind);
  const deployed = await new ContractFactory([], initCode, signer).deploy();
  await deployed.waitForDeployment();
  const address = (await deployed.getAddress()) as Address;
  const contract = new Contract(address, FACTORY, signer);
  return {
    address,
    async wallet(owner) {
      const salt = toHex(randomBytes(32));
      const data = FACTORY.encodeFunctionData("create", [owner, salt]) as Hex;
      return { address: await contract.getFunction("addressOf")(owner, salt), deployment: { factory: address, data } };
    },
    async arm(isArmed) {
      await (await contract.getFunction("arm")(isArmed ? 1 : 0)).wait();
    },
  };
}

/** Wraps a signature as ERC-6492 says. */
export function wrapSignature(signature: Hex, { factory, data }: UndeployedWallet["deployment"]): Hex {
  const body = AbiCoder.defaultAbiCoder().encode(["address", "bytes", "bytes"], [factory, data, signature]);
  return `${body}${"6492".repeat(16)}` as Hex;
}
