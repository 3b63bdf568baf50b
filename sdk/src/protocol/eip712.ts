/**
 * Implements EIP-712 for the flat structs that this project signs: digest, recovery and signing, written for hot paths.
 */
import { secp256k1 } from "@noble/curves/secp256k1";
import { type Address, checksum } from "./address";
import { BoundedMap } from "./bounded-map";
import { concatBytes, type Hex, hexToBytes, keccak256, keccakText, wordOfAddress, wordOfUint } from "./hex";

/** One field of an EIP-712 struct. */
export interface TypedDataField {
  readonly name: string;
  readonly type: "address" | "string" | "bytes32" | "bool" | "uint256" | "uint40" | "uint16" | "uint32";
}

/** What a signature is bound to: name, version, chain and contract. */
export interface TypedDataDomain {
  readonly name: string;
  readonly version: string;
  readonly chainId?: number;
  readonly verifyingContract?: Address;
}

/** A field as it is given; integers may be `bigint`, and are encoded exactly. */
export type TypedDataValue = string | bigint | number | boolean;

/** Ready for `signer.signTypedData(domain, types, message)` of ethers, and for `typedDataDigest`. */
export interface TypedData {
  readonly domain: TypedDataDomain;
  readonly primaryType: string;
  readonly types: Readonly<Record<string, readonly TypedDataField[]>>;
  readonly message: Readonly<Record<string, TypedDataValue>>;
}

const typeHashes = new WeakMap<readonly TypedDataField[], Uint8Array>();

const separators = new BoundedMap<string, Uint8Array>(1_000);

function typeHash(primaryType: string, fields: readonly TypedDataField[]): Uint8Array {
  const known = typeHashes.get(fields);
  if (known) return known;
  const hash = hexToBytes(keccakText(`${primaryType}(${fields.map((f) => `${f.type} ${f.name}`).join(",")})`));
  typeHashes.set(fields, hash);
  return hash;
}

function encodeValue(type: TypedDataField["type"], value: TypedDataValue): Uint8Array {
  switch (type) {
    case "address":
      return wordOfAddress(value as string);
    case "string":
      return hexToBytes(keccakText(value as string));
    case "bytes32":
      return hexToBytes(value as Hex);
    case "bool":
      return wordOfUint(value ? 1 : 0);
    default:
      return wordOfUint(BigInt(value as bigint | number | string));
  }
}

/** keccak256 of the domain; remembered per domain. Fields that are absent are left out of the domain's type. */
export function domainSeparator(domain: TypedDataDomain): Uint8Array {
  const key = `${domain.name}\n${domain.version}\n${domain.chainId ?? ""}\n${domain.verifyingContract?.toLowerCase() ?? ""}`;
  const known = separators.get(key);
  if (known) return known;
  const fields = ["string name", "string version"];
  const words = [hexToBytes(keccakText(domain.name)), hexToBytes(keccakText(domain.version))];
  if (domain.chainId !== undefined) {
    fields.push("uint256 chainId");
    words.push(wordOfUint(domain.chainId));
  }
  if (domain.verifyingContract !== undefined) {
    fields.push("address verifyingContract");
    words.push(wordOfAddress(domain.verifyingContract));
  }
  const separator = hexToBytes(
    keccak256(concatBytes(hexToBytes(keccakText(`EIP712Domain(${fields.join(",")})`)), ...words)),
  );
  separators.set(key, separator);
  return separator;
}

/** The 32 bytes that a wallet signs. */
export function typedDataDigest(data: TypedData): Hex {
  const fields = data.types[data.primaryType] ?? [];
  const struct = concatBytes(
    typeHash(data.primaryType, fields),
    ...fields.map((field) => encodeValue(field.type, data.message[field.name] as TypedDataValue)),
  );
  return keccak256(concatBytes(Uint8Array.of(0x19, 0x01), domainSeparator(data.domain), hexToBytes(keccak256(struct))));
}

/** The only accepted form of an ECDSA signature: r, s, v in 65 bytes of hex. */
export const SIGNATURE_65 = /^0x[0-9a-fA-F]{130}$/;

/**
 * Recovers the signer of a 65-byte r || s || v signature over `digest`.
 * @returns undefined when it is malformed, has a high s or a v other than 27/28, or recovers nothing
 */
export function recoverSigner(digest: Hex, signature: string): Address | undefined {
  if (!SIGNATURE_65.test(signature)) return undefined;
  const v = Number.parseInt(signature.slice(130), 16);
  if (v !== 27 && v !== 28) return undefined;
  try {
    const parsed = secp256k1.Signature.fromCompact(signature.slice(2, 130).toLowerCase()).addRecoveryBit(v - 27);
    if (parsed.hasHighS()) return undefined;
    return addressOfPublicKey(parsed.recoverPublicKey(digest.slice(2)).toRawBytes(false));
  } catch {
    // The curve library throws for r or s out of range and for points off the curve: no signer.
    return undefined;
  }
}

/** Deterministic (RFC 6979), low s, 65 bytes r || s || v. */
export function signDigest(digest: Hex, privateKey: Hex): Hex {
  const signature = secp256k1.sign(digest.slice(2), privateKey.slice(2), { lowS: true });
  return `0x${signature.toCompactHex()}${(27 + signature.recovery).toString(16)}`;
}

/**
 * The checksummed address of a private key.
 * @throws RangeError for a key out of range
 */
export function addressOfKey(privateKey: Hex): Address {
  return addressOfPublicKey(secp256k1.getPublicKey(privateKey.slice(2), false));
}

function addressOfPublicKey(uncompressed: Uint8Array): Address {
  return checksum(`0x${keccak256(uncompressed.slice(1)).slice(26)}`);
}
