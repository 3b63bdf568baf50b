/**
 * Encodes and signs an EIP-1559 transaction. Hand-written because batches are long, and each is hashed twice. A test
 * compares it with ethers.
 */
import { type Address, type Hex, keccak256 } from "turnpike/protocol";

export interface TransactionFields {
  readonly chainId: number;
  readonly nonce: number;
  readonly to: Address;
  readonly data: Hex;
  readonly gasLimit: bigint;
  readonly maxFeeWei: bigint;
  readonly priorityFeeWei: bigint;
}

export interface SignedTransaction {
  readonly hash: Hex;
  readonly raw: Hex;
}

const TYPE = Buffer.of(0x02);

const EMPTY_LIST = Buffer.of(0xc0);

/** Returns the value in big-endian without leading zeros; zero is empty. */
function uintBytes(value: bigint | number): Buffer {
  const digits = value.toString(16);
  return digits === "0" ? Buffer.alloc(0) : Buffer.from(digits.length % 2 === 0 ? digits : `0${digits}`, "hex");
}

function lengthPrefix(length: number, base: number): Buffer {
  if (length < 56) return Buffer.of(base + length);
  const bytes = uintBytes(length);
  return Buffer.concat([Buffer.of(base + 55 + bytes.length), bytes]);
}

function rlpBytes(bytes: Buffer): readonly Buffer[] {
  if (bytes.length === 1 && (bytes[0] as number) < 0x80) return [bytes];
  return [lengthPrefix(bytes.length, 0x80), bytes];
}

function typed(items: readonly Buffer[]): Buffer {
  const length = items.reduce((sum, item) => sum + item.length, 0);
  return Buffer.concat([TYPE, lengthPrefix(length, 0xc0), ...items]);
}

const fromHex = (hex: Hex): Buffer => Buffer.from(hex.slice(2), "hex");

/** @param sign returns 65 bytes r || s || v for the digest */
export async function signRaw(
  fields: TransactionFields,
  sign: (digest: Hex) => Hex | Promise<Hex>,
): Promise<SignedTransaction> {
  const unsigned = [
    ...rlpBytes(uintBytes(fields.chainId)),
    ...rlpBytes(uintBytes(fields.nonce)),
    ...rlpBytes(uintBytes(fields.priorityFeeWei)),
    ...rlpBytes(uintBytes(fields.maxFeeWei)),
    ...rlpBytes(uintBytes(fields.gasLimit)),
    ...rlpBytes(fromHex(fields.to)),
    ...rlpBytes(Buffer.alloc(0)),
    ...rlpBytes(fromHex(fields.data)),
    EMPTY_LIST,
  ];
  const signature = fromHex(await sign(keccak256(typed(unsigned))));
  const raw = typed([
    ...unsigned,
    ...rlpBytes(uintBytes((signature[64] as number) - 27)),
    ...rlpBytes(stripped(signature.subarray(0, 32))),
    ...rlpBytes(stripped(signature.subarray(32, 64))),
  ]);
  return { hash: keccak256(raw), raw: `0x${raw.toString("hex")}` };
}

/** Removes leading zero bytes: r and s are numbers. */
function stripped(bytes: Buffer): Buffer {
  let start = 0;
  while (start < bytes.length && bytes[start] === 0) start++;
  return bytes.subarray(start);
}
