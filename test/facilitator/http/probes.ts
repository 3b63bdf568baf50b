import { expect } from "chai";
import { findNetwork, type Network } from "turnpike/protocol";
import { notServed } from "../../../facilitator/src/app/readiness";
import { createProbes } from "../../../facilitator/src/http/probes";
import { createStarting } from "../../../facilitator/src/http/starting";
import { expectProblem } from "../support/problem";

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

  it("answers what it does not serve with a problem, as a process that is starting does", async () => {
    await expectProblem(await probes.request("/readyz?network=nowhere"), 400, "InvalidRequest");
    await expectProblem(await probes.request("/supported"), 404, "NotFound");
    const starting = await createStarting(undefined).app.request("/supported");
    expect(starting.headers.get("retry-after")).to.equal("5");
    await expectProblem(starting, 503, "Unavailable");
  });
});
