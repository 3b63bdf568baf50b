import { isIP } from "node:net";
import { expect } from "chai";
import { isPublicAddress } from "turnpike/protocol";
import { isClosedAddress, publicLookup, RefusedAddress } from "turnpike/public-lookup";
import { checkPublicUrl } from "../../../facilitator/src/lib/public-addresses";
import { guardedFetch } from "../../../sdk/src/mcp/wallet/guarded-fetch";

const CLOSED: Readonly<Record<string, readonly string[]>> = {
  "this host": ["0.0.0.0", "0.255.255.255", "::"],
  loopback: ["127.0.0.1", "127.255.255.255", "::1"],
  "a private network": ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1", "fd00::1", "fec0::1"],
  "a shared network": ["100.64.0.0", "100.127.255.255"],
  "link-local": ["169.254.0.0", "fe80::1"],
  metadata: ["169.254.169.254", "100.100.100.200", "168.63.129.16", "fd00:ec2::254"],
  "mapped IPv4": ["::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:169.254.169.254", "::ffff:8.8.8.8"],
  "compatible IPv4": ["::127.0.0.1", "::7f00:1"],
  "translated IPv4": ["64:ff9b::7f00:1", "64:ff9b:1::a9fe:a9fe", "::ffff:0:7f00:1", "64:ff9b::8.8.8.8"],
  "tunnelled IPv4": ["2002:7f00:1::", "2001:0:53aa::1"],
  multicast: ["224.0.0.1", "239.255.255.255", "ff02::1"],
  broadcast: ["255.255.255.255"],
  documentation: ["192.0.2.1", "198.51.100.1", "203.0.113.1", "2001:db8::1", "3fff::1"],
  benchmarks: ["198.18.0.1", "198.19.255.255", "2001:2::1"],
  "special purposes": ["192.0.0.1", "192.31.196.1", "192.52.193.1", "192.88.99.1", "192.175.48.1", "2620:4f:8000::1"],
  reserved: ["240.0.0.1", "1fff::1", "4000::1", "5f00::1", "100::1"],
};

/** Other ways to write an address, as a URL's host. */
const FORMS = ["127.1", "2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1", "017700000001", "①27.0.0.1", "127.0.0.1."];

const OPEN = { allowHttp: true, origins: undefined, privateOrigins: new Set<string>() };

describe("the guard of connections to public addresses", () => {
  const reasonOf = (host: string, resolved?: string): Promise<unknown> =>
    guardedFetch(OPEN, async () => [resolved ?? "127.0.0.1"])(`https://${host}/`, { redirect: "manual" }).then(
      () => "reached",
      (error: { readonly reason?: string }) => error.reason,
    );
  const foundBy = (address: string): Promise<unknown> =>
    new Promise((resolve) => {
      const lookup = publicLookup((_host, _options, callback) => callback(null, [{ address, family: isIP(address) }]));
      lookup("named.example", { all: true }, (error, found) => resolve(error ?? found));
    });

  for (const [what, addresses] of Object.entries(CLOSED)) {
    it(`B18 MW1 refuses ${what}, in a URL and behind a name, for the Facilitator and the wallet`, async () => {
      for (const address of addresses) {
        const host = address.includes(":") ? `[${address}]` : address;
        expect(isPublicAddress(address), address).to.equal(false);
        expect(isClosedAddress(host), host).to.equal(true);
        expect(() => checkPublicUrl(`https://${host}/`, { allowPrivate: false }), host).to.throw("public address");
        expect(await reasonOf(host), host).to.equal("address");
        expect(await foundBy(address), address).to.be.instanceOf(RefusedAddress);
        expect(await reasonOf("named.example", address), address).to.equal("address");
      }
    });
  }

  it("B18 MW1 refuses loopback however a URL writes it", async () => {
    for (const host of FORMS) {
      expect(() => checkPublicUrl(`https://${host}/`, { allowPrivate: false }), host).to.throw("public address");
      expect(await reasonOf(host), host).to.equal("address");
    }
  });

  it("accepts public addresses, alone among what a name resolves to", async () => {
    for (const address of ["8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e"]) {
      const host = address.includes(":") ? `[${address}]` : address;
      expect(checkPublicUrl(`https://${host}/`, { allowPrivate: false })).to.equal(`https://${host}/`);
      expect(await foundBy(address)).to.deep.equal([{ address, family: isIP(address) }]);
    }
  });
});
