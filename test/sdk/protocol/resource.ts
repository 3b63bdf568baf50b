import { expect } from "chai";
import {
  findNetwork,
  networkOfChain,
  requireNetwork,
  resourceOf,
  resourceOfUrl,
  resourceWithoutQuery,
} from "turnpike/protocol";

describe("protocol > resource", () => {
  it("joins the public URL with the request target as it came", () => {
    expect(resourceOf("https://api.example", "/a/b?z=1&a=2")).to.equal("https://api.example/a/b?z=1&a=2");
    expect(resourceOf("https://api.example/v1/", "/a")).to.equal("https://api.example/v1/a");
    expect(resourceOf("https://api.example", "/a#fragment")).to.equal("https://api.example/a");
    expect(resourceOf("https://api.example", "/%7Euser")).to.equal("https://api.example/%7Euser");
  });

  it("C5 never leaves the public origin", () => {
    expect(resourceOf("https://api.example", "//evil.example/x")).to.equal("https://api.example//evil.example/x");
    expect(resourceOf("https://api.example", "/\\evil.example/x")).to.equal(undefined);
    expect(resourceOf("https://api.example", "https://evil.example/x")).to.equal(undefined);
    expect(resourceOf("https://api.example", "*")).to.equal(undefined);
    expect(resourceOf("https://api.example", `/${"a".repeat(2_048)}`)).to.equal(undefined);
  });

  it("is the same string on the agent's side", () => {
    for (const target of ["/a/b?z=1&a=2", "//x", "/a/../b", "/%2e%2e/b", "/ü?q=ü", "/a?x=%zz"]) {
      expect(resourceOfUrl(`https://api.example${target}`), target).to.equal(resourceOf("https://api.example", target));
    }
  });

  it("keeps no query where it is stored", () => {
    expect(resourceWithoutQuery("https://api.example/a?token=secret")).to.equal("https://api.example/a");
  });
});

describe("protocol > networks", () => {
  it("knows a chain by its own name, the stock name, CAIP-2 and local form", () => {
    for (const name of ["base-mainnet", "base", "eip155:8453"]) expect(findNetwork(name)?.chainId).to.equal(8453);
    expect(findNetwork("robinhood-mainnet")?.chainId).to.equal(4663);
    expect(findNetwork("local-31337")?.chainId).to.equal(31337);
    expect(networkOfChain(31337).name).to.equal("local-31337");
    expect(findNetwork("local-0")).to.equal(undefined);
    expect(findNetwork("nowhere")).to.equal(undefined);
  });

  it("names the known ones when asked for another", () => {
    expect(() => requireNetwork("nowhere")).to.throw("base-mainnet");
  });
});
