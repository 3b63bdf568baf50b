/**
 * Implements EIP-712 for the structs that this project signs: digest, recovery and signing, written for hot paths.
 */
import { secp256k1 } from "@noble/curves/secp256k1";
import { type Address, checksum } from "./address";
import { aList, aText, callback, fieldsOf, wholeNumber, wrongKind } from "./arguments";
import { BoundedMap } from "./bounded-map";
import {
  type Hex,
  hexToBytes,
  keccak256,
  keccak256Of,
  textToBytes,
  toHex,
  WORD,
  writeAddress,
  writeHash,
  writeUint,
} from "./hex";

/** One field of an EIP-712 struct. */
export interface TypedDataField {
  readonly name: string;
  readonly type: "address" | "string" | "bytes32" | "bool" | "uint256" | "uint40" | "uint16" | "uint32" | StructName;
}

/** Structs that are a field of another one. */
type StructName = "TokenPermissions" | "Witness";

/** What a signature is bound to: name, version, chain and contract. Some domains have no version. */
export interface TypedDataDomain {
  readonly name: string;
  readonly version?: string;
  readonly chainId?: number;
  readonly verifyingContract?: Address;
}

/** A field as it is given; integers may be `bigint`, and are encoded exactly. */
export type TypedDataValue = string | bigint | number | boolean | TypedDataStruct;

/** The fields of a struct by name. */
export interface TypedDataStruct {
  readonly [field: string]: TypedDataValue;
}

/** The fields of each struct, by the struct's name. */
export type TypedDataTypes = Readonly<Record<string, readonly TypedDataField[]>>;

/** A message to sign, for viem's `signTypedData` and {@link typedDataDigest}; for ethers see {@link mutableTypes}. */
export interface TypedData {
  readonly domain: TypedDataDomain;
  readonly primaryType: string;
  readonly types: TypedDataTypes;
  readonly message: TypedDataStruct;
}

/** Copies the types of a message into mutable arrays, which ethers' `signTypedData` requires by its types. */
export function mutableTypes(types: TypedDataTypes): Record<string, TypedDataField[]> {
  fieldsOf(types, "types");
  return Object.fromEntries(
    Object.entries(types).map(([name, fields]) => {
      aList(fields, `types.${name}`);
      return [name, fields.map((field) => ({ ...field }))];
    }),
  );
}

/** by the fields of the struct: one list belongs to one set of types */
const typeHashes = new WeakMap<readonly TypedDataField[], Uint8Array>();

const separators = new BoundedMap<string, Uint8Array>(1_000);

const isInteger = (text: string): boolean => /^(?:[0-9]+|0x[0-9a-fA-F]+)$/.test(text);

const hashOfText = (text: string): Uint8Array => keccak256Of(textToBytes(text));

const declarationOf = (name: string, fields: readonly TypedDataField[]): string =>
  `${name}(${fields.map((f) => `${f.type} ${f.name}`).join(",")})`;

/** keccak256 of the struct's declaration, followed by those of the structs among its fields, in the order of names. */
function typeHash(name: string, fields: readonly TypedDataField[], types: TypedDataTypes): Uint8Array {
  const known = typeHashes.get(fields);
  if (known) return known;
  const inner = [...new Set(fields.map((field) => field.type))].filter((type) => types[type] !== undefined).sort();
  const declarations = [name, ...inner].map((each) => declarationOf(each, types[each] ?? fields));
  const hash = hashOfText(declarations.join(""));
  typeHashes.set(fields, hash);
  return hash;
}

function writeValue(
  into: Uint8Array,
  at: number,
  { name, type, value, types }: TypedDataField & { value: TypedDataValue; types: TypedDataTypes },
): void {
  switch (type) {
    case "address":
      writeAddress(into, at, value as string, name);
      break;
    case "string":
      aText(value, name);
      into.set(hashOfText(value as string), at);
      break;
    case "bytes32":
      writeHash(into, at, value as Hex, name);
      break;
    case "bool":
      writeUint(into, at, value ? 1 : 0);
      break;
    case "TokenPermissions":
    case "Witness":
      into.set(structHash(type, types, fieldsOf(value as TypedDataStruct, name)), at);
      break;
    default:
      writeUint(into, at, typeof value === "string" && isInteger(value) ? BigInt(value) : (value as bigint), name);
  }
}

/** keccak256 of a struct: its type's hash, then one word for each field. */
function structHash(name: string, types: TypedDataTypes, values: TypedDataStruct): Uint8Array {
  const fields = types[name] ?? [];
  const words = new Uint8Array((1 + fields.length) * WORD);
  words.set(typeHash(name, fields, types), 0);
  for (let i = 0; i < fields.length; i++) {
    const { name: field, type } = fields[i] as TypedDataField;
    writeValue(words, (1 + i) * WORD, { name: field, type, value: values[field] as TypedDataValue, types });
  }
  return keccak256Of(words);
}

const DOMAIN_FIELDS: readonly TypedDataField[] = [
  { name: "name", type: "string" },
  { name: "version", type: "string" },
  { name: "chainId", type: "uint256" },
  { name: "verifyingContract", type: "address" },
];

/** keccak256 of the domain; remembered per domain. Fields that are absent are left out of the domain's type. */
export function domainSeparator(domain: TypedDataDomain): Uint8Array {
  fieldsOf(domain, "domain");
  const { name, version = "", chainId = 0, verifyingContract = "" } = domain;
  for (const [field, value] of Object.entries({ name, version, verifyingContract })) aText(value, `domain.${field}`);
  wholeNumber(chainId, "domain.chainId");
  const key = `${domain.name}\n${domain.version ?? ""}\n${domain.chainId ?? ""}\n${domain.verifyingContract?.toLowerCase() ?? ""}`;
  const known = separators.get(key);
  if (known) return known;
  const values = domain as unknown as Readonly<Record<string, TypedDataValue | undefined>>;
  const fields = DOMAIN_FIELDS.filter(({ name }) => values[name] !== undefined);
  const separator = structHash("EIP712Domain", { EIP712Domain: fields }, values as TypedDataStruct);
  separators.set(key, separator);
  return separator;
}

/** The 32 bytes that a wallet signs. */
export function typedDataDigest(data: TypedData): Hex {
  const { domain, primaryType, types, message } = fieldsOf(data, "data");
  const signed = new Uint8Array(2 + 2 * WORD);
  signed[0] = 0x19;
  signed[1] = 0x01;
  signed.set(domainSeparator(domain), 2);
  signed.set(structHash(primaryType, types, message), 2 + WORD);
  return toHex(keccak256Of(signed));
}

/** The only accepted form of an ECDSA signature: r, s, v in 65 bytes of hex. */
export const SIGNATURE_65 = /^0x[0-9a-fA-F]{130}$/;

/** Half the order of the curve: a larger s is another form of the same signature. */
const HALF_ORDER = "7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0";

/** Returns whether s is the lower of its two forms. @param signature of 65 bytes */
export function isLowS(signature: string): boolean {
  aText(signature, "signature");
  return signature.slice(66, 130).toLowerCase() <= HALF_ORDER;
}

/** Recovers public keys; the npm package `secp256k1` has this form. */
export interface RecoveryCurve {
  /**
   * @param signature r and s, 64 bytes
   * @returns the uncompressed public key, 65 bytes
   * @throws for r or s out of range, and for points off the curve
   */
  ecdsaRecover(signature: Uint8Array, recovery: number, digest: Uint8Array, compressed: false): Uint8Array;
}

/**
 * Recovers the signer of a digest: undefined when the signature is malformed, has a high s or a v other than 27/28, or
 * recovers nothing.
 */
export type RecoverSigner = (digest: Hex, signature: string) => Address | undefined;

/** Makes a recovery of 65-byte r || s || v signatures on one curve library. All of them are equally strict. */
export function signerRecovery(curve: RecoveryCurve): RecoverSigner {
  fieldsOf(curve, "curve");
  return (digest, signature) => {
    if (typeof signature !== "string" || !SIGNATURE_65.test(signature)) return undefined;
    const v = Number.parseInt(signature.slice(130), 16);
    if (v !== 27 && v !== 28) return undefined;
    if (!isLowS(signature)) return undefined;
    const compact = hexToBytes(signature.slice(0, 130) as Hex);
    try {
      return addressOfPublicKey(curve.ecdsaRecover(compact, v - 27, hexToBytes(digest), false));
    } catch {
      // The curve library throws for r or s out of range and for points off the curve: no signer.
      return undefined;
    }
  };
}

/**
 * Recovers the signer of a digest by the portable curve library, which takes over 1 ms. Marked as pure: pages that recover
 * nothing do not load the curve.
 */
export const recoverSigner: RecoverSigner = /* @__PURE__ */ signerRecovery({
  ecdsaRecover: (signature, recovery, digest) =>
    secp256k1.Signature.fromCompact(signature).addRecoveryBit(recovery).recoverPublicKey(digest).toRawBytes(false),
});

/**
 * Returns a signature with 27 or 28 as its v where a wallet wrote 0 or 1, as tokens and contracts read it. Every other
 * one stays as it is.
 */
export function signatureWithV(signature: Hex): Hex {
  aText(signature, "signature");
  if (!SIGNATURE_65.test(signature)) return signature;
  const v = Number.parseInt(signature.slice(130), 16);
  return v > 1 ? signature : `0x${signature.slice(2, 130)}${(27 + v).toString(16)}`;
}

/**
 * Returns {@link signatureWithV} of an account's own key. To a contract wallet every byte may mean something else, and
 * its signature stays as it is.
 * @param isOwn whether the key of the account made this signature
 */
export function keySignature(signature: Hex, isOwn: (withV: Hex) => boolean): Hex {
  aText(signature, "signature");
  callback(isOwn, "isOwn");
  const withV = signatureWithV(signature);
  return withV === signature || !isOwn(withV) ? signature : withV;
}

/** Deterministic (RFC 6979), low s, 65 bytes r || s || v. */
export function signDigest(digest: Hex, privateKey: Hex): Hex {
  requireKey(privateKey);
  if (typeof digest !== "string" || !/^0x[0-9a-fA-F]{64}$/.test(digest))
    throw wrongKind(digest, "digest", "0x and 64 hex digits");
  const signature = secp256k1.sign(digest.slice(2), privateKey.slice(2), { lowS: true });
  return `0x${signature.toCompactHex()}${(27 + signature.recovery).toString(16)}`;
}

/** Returns whether `text` is a private key: 0x and 64 hex digits, of a number that the curve has. Zero is none. */
export function isPrivateKey(text: unknown): text is Hex {
  return (
    typeof text === "string" && /^0x[0-9a-fA-F]{64}$/.test(text) && secp256k1.utils.isValidPrivateKey(text.slice(2))
  );
}

/**
 * The checksummed address of a private key.
 * @throws ConfigError for what is no private key
 */
export function addressOfKey(privateKey: Hex): Address {
  requireKey(privateKey);
  return addressOfPublicKey(secp256k1.getPublicKey(privateKey.slice(2), false));
}

function requireKey(privateKey: Hex): void {
  if (!isPrivateKey(privateKey))
    throw wrongKind(privateKey, "privateKey", "0x and 64 hex digits, a number that the curve has");
}

function addressOfPublicKey(uncompressed: Uint8Array): Address {
  return checksum(`0x${keccak256(uncompressed.slice(1)).slice(26)}`);
}
