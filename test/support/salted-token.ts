/** A token whose signing domain has a salt, so that no x402 client can sign for it; all else is the test token's. */
import { AbiCoder, type JsonRpcProvider, keccak256, toUtf8Bytes } from "ethers";
import { type Address, addressOfKey, checksum, keccakText } from "turnpike/protocol";

const SALTED = "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract,bytes32 salt)";

/** Puts it at an address of its own. @param token the test token, whose code moves its balances */
export async function placeSaltedToken(provider: JsonRpcProvider, token: Address, chainId: number): Promise<Address> {
  const address = checksum(addressOfKey(keccakText("a salted token")));
  const words = ["bytes32", "bytes32", "bytes32", "uint256", "address", "bytes32"];
  const text = (value: string): string => keccak256(toUtf8Bytes(value));
  const values = [text(SALTED), text("Test USD"), text("1"), chainId, address, text("salt")];
  const separator = keccak256(AbiCoder.defaultAbiCoder().encode(words, values));
  await provider.send("hardhat_setCode", [address, codeOf(token, separator)]);
  return address;
}

/** Answers DOMAIN_SEPARATOR() itself, refuses eip712Domain(), and delegates every other call. */
function codeOf(token: Address, separator: string): string {
  const select = (selector: string, target: string): string => `8063${selector}1461${target}57`;
  const head = `5f3560e01c${select("3644e515", "0049")}${select("84b0196e", "0071")}`;
  const delegated = `365f5f375f5f365f73${token.slice(2).toLowerCase()}5af43d5f5f3e610045573d5ffd5b3d5ff3`;
  const ownSeparator = `5b7f${separator.slice(2)}5f5260205ff3`;
  const refused = "5b5f5ffd";
  return `0x${head}${delegated}${ownSeparator}${refused}`;
}
