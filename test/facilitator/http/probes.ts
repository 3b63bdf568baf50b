import { expect } from "chai";
import { findNetwork, type Network } from "turnpike/protocol";
import { notServed } from "../../../facilitator/src/app/readiness";
import { createProbes } from "../../../facilitator/src/http/probes";

const OWN = findNetwork("base-mainnet") as Network;

describe("Facilitator: a process without the API", () => {
  const probes = createProbes({
    metrics: undefined,
    readiness: (network?: Network) =>
      network && network.chainId !== OWN.chainId ? notServed(network) : { ready: true, checks: [] },
  });
  const statusOf = async (query: string) => (await probes.request(`/readyz${query}`)).status;

  it("HD53 says of one chain whether it is ready, where it is asked for one", async () => {
    expect(await statusOf("")).to.equal(200);
    expect(await statusOf("?network=base-mainnet")).to.equal(200);
    expect(await statusOf("?network=polygon-mainnet")).to.equal(503);
    expect(await statusOf("?network=nowhere")).to.equal(400);
  });
});
