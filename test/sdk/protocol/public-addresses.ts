import { isIP } from "node:net";
import { expect } from "chai";
import fc from "fast-check";
import { isPublicAddress } from "turnpike/protocol";

/** The first and the last address of every closed block, and their public neighbours where there are any. */
const EDGES = {
  closed: [
    ...["0.255.255.255", "10.0.0.0", "10.255.255.255", "100.64.0.0", "100.127.255.255", "127.255.255.255"],
    ...["169.254.0.0", "172.16.0.0", "172.31.255.255", "192.0.0.255", "192.0.2.0", "192.88.99.255", "192.168.255.255"],
    ...["198.18.0.0", "198.19.255.255", "198.51.100.0", "203.0.113.255", "224.0.0.0", "239.255.255.255", "240.0.0.0"],
    ...["1fff:ffff::", "4000::", "2001::", "2001:1ff:ffff::", "2001:db8::", "2001:db8:ffff::1", "2002::", "3fff::1"],
    ...["::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "::8.8.8.8"],
  ],
  open: [
    ...["1.0.0.0", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0"],
    ...["169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.0", "192.169.0.0", "198.17.255.255"],
    ...["198.20.0.0", "223.255.255.255", "168.63.129.15", "2000::", "2001:200::", "2001:db7::", "2001:db9::", "2003::"],
    ...["3ffe:ffff::", "2606:4700::1.2.3.4", "2606:4700:0:0:0:0:0:1"],
  ],
};

describe("protocol > public addresses", () => {
  it("MW1 B18 closes every special block from its first to its last address, and nothing beside it", () => {
    for (const address of EDGES.closed) expect(isPublicAddress(address), address).to.equal(false);
    for (const address of EDGES.open) expect(isPublicAddress(address), address).to.equal(true);
  });

  it("MW1 reads no form that another program may read differently", () => {
    const forms = [
      ...["8.8.8", "8.8.8.08", "0x8.8.8.8", "134744072", "8.8.8.8.", "8.8.8.8:53", " 8.8.8.8", "8.8.8.256", "8.8.8.-1"],
      ...["[2606:4700::1]", "2606:4700::1%eth0", "2606::4700::1", "2606:4700:::1", "2606:4700:1", "2606:4700::12345"],
      ...["2606:1:2:3:4:5:6:7:8", "2606:1:2:3:4:5:6:7::", ":2606:4700::1", "2606:4700::1:", "2606:4700::1.2.3", ""],
    ];
    for (const form of forms) expect(isPublicAddress(form), form).to.equal(false);
  });

  it("MW1 calls nothing public that is no address", () => {
    const text = fc.oneof(fc.ipV4(), fc.ipV6(), fc.string(), fc.stringMatching(/^[0-9a-f:.]{0,40}$/));
    fc.assert(
      fc.property(text, (given) => {
        if (isPublicAddress(given)) expect(isIP(given)).to.not.equal(0);
      }),
    );
  });
});
