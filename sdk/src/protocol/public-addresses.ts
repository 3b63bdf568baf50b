/**
 * Decides which IP addresses are public: the only ones that a program may connect to on behalf of somebody it does not
 * trust. Pure: resolves no name.
 */
import { aText } from "./arguments";

/** A block of addresses: its first address and the length of its prefix, bits. */
type Block = readonly [address: string, bits: number];

/** IPv4 blocks that are private, shared, local, reserved or for documentation, and the metadata address of Azure. */
const CLOSED_V4: readonly Block[] = [
  ...([
    ["0.0.0.0", 8],
    ["10.0.0.0", 8],
    ["100.64.0.0", 10],
    ["127.0.0.0", 8],
    ["169.254.0.0", 16],
  ] as const),
  ...([
    ["172.16.0.0", 12],
    ["192.0.0.0", 24],
    ["192.0.2.0", 24],
    ["192.31.196.0", 24],
    ["192.52.193.0", 24],
  ] as const),
  ...([
    ["192.88.99.0", 24],
    ["192.168.0.0", 16],
    ["192.175.48.0", 24],
    ["198.18.0.0", 15],
  ] as const),
  ...([
    ["198.51.100.0", 24],
    ["203.0.113.0", 24],
    ["224.0.0.0", 4],
    ["240.0.0.0", 4],
  ] as const),
  ["168.63.129.16", 32],
];

/** The only IPv6 block assigned for global unicast. Mapped, translated and compatible forms of IPv4 are outside it. */
const GLOBAL_V6: Block = ["2000::", 3];

/** Blocks in it for tunnels, benchmarks, documentation and other special purposes. */
const CLOSED_V6: readonly Block[] = [
  ["2001::", 23],
  ["2001:db8::", 32],
  ["2002::", 16],
  ["2620:4f:8000::", 48],
  ["3fff::", 20],
];

/**
 * Returns whether an address is public unicast.
 * @param address an IP address as text, without brackets or zone; anything else is not public
 */
export function isPublicAddress(address: string): boolean {
  aText(address, "address");
  const v4 = parseV4(address);
  if (v4 !== undefined) return !CLOSED_V4.some(([first, bits]) => isIn(v4, parseV4(first), 32 - bits));
  const v6 = parseV6(address);
  if (v6 === undefined || !isIn(v6, parseV6(GLOBAL_V6[0]), 128 - GLOBAL_V6[1])) return false;
  return !CLOSED_V6.some(([first, bits]) => isIn(v6, parseV6(first), 128 - bits));
}

const isIn = (address: bigint, first: bigint | undefined, hostBits: number): boolean =>
  first !== undefined && address >> BigInt(hostBits) === first >> BigInt(hostBits);

/** Accepts four decimal octets alone: 1.2.3, 0x7f.1 and 010.0.0.1 are read differently by different programs. */
function parseV4(text: string): bigint | undefined {
  const octets = text.split(".");
  if (octets.length !== 4 || !octets.every((octet) => /^(?:0|[1-9][0-9]{0,2})$/.test(octet))) return undefined;
  let address = 0n;
  for (const octet of octets) {
    if (Number(octet) > 255) return undefined;
    address = (address << 8n) | BigInt(octet);
  }
  return address;
}

const GROUPS = 8;

function parseV6(text: string): bigint | undefined {
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const [head, tail] = halves.map(groupsOf);
  if (!head || (halves.length === 2 && !tail)) return undefined;
  const missing = GROUPS - head.length - (tail?.length ?? 0);
  // "::" replaces one group or more.
  if (halves.length === 2 ? missing < 1 : missing !== 0) return undefined;
  const groups = [...head, ...new Array<bigint>(missing).fill(0n), ...(tail ?? [])];
  return groups.reduce((address, group) => (address << 16n) | group, 0n);
}

/** Returns the 16-bit groups of one side of "::"; the last 32 bits may be written as an IPv4 address. */
function groupsOf(text: string): bigint[] | undefined {
  if (text === "") return [];
  const groups: bigint[] = [];
  const parts = text.split(":");
  for (const [at, part] of parts.entries()) {
    const v4 = at === parts.length - 1 ? parseV4(part) : undefined;
    if (v4 !== undefined) groups.push(v4 >> 16n, v4 & 0xffffn);
    else if (/^[0-9a-fA-F]{1,4}$/.test(part)) groups.push(BigInt(`0x${part}`));
    else return undefined;
  }
  return groups;
}
