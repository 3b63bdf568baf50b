/**
 * Decides which IP addresses are public: the only ones that a program may connect to on behalf of somebody it does not
 * trust. Pure: resolves no name.
 */
import ipaddr from "ipaddr.js";
import { aText } from "./arguments";

/** Azure's metadata and DNS, at an address that is public by its form. */
const AZURE = "168.63.129.16";

/** The only IPv6 block assigned for global unicast. Mapped, translated and compatible forms of IPv4 are outside it. */
const GLOBAL_V6 = "2000::/3";

/**
 * Returns whether an address is public unicast.
 * @param address an IP address as text, without brackets or zone; anything else is not public
 */
export function isPublicAddress(address: string): boolean {
  aText(address, "address");
  // Four decimal octets alone: 1.2.3, 0x7f.1 and 010.0.0.1 are read differently by different programs.
  if (ipaddr.IPv4.isValidFourPartDecimal(address)) {
    return address !== AZURE && ipaddr.IPv4.parse(address).range() === "unicast";
  }
  if (address.includes("%") || !ipaddr.IPv6.isValid(address)) return false;
  const parsed = ipaddr.IPv6.parse(address);
  return parsed.range() === "unicast" && parsed.match(ipaddr.IPv6.parseCIDR(GLOBAL_V6));
}
