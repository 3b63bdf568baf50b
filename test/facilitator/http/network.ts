import { expect } from "chai";
import type { Account, Problem } from "turnpike/facilitator";
import { JSON_TYPE, useService } from "../support/http-service";

/** Reports on any network, or lists what a network has: one that is not served has nothing. */
const OF_ALL = ["get /readyz", "get /discovery/resources", "get /discovery/search"];

interface Documented {
  readonly paths: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

/** Served from the connection, or no JSON endpoints: they are about no chain. */
describe("Facilitator: the network that a request to a service on one chain names", function () {
  this.timeout(120_000);
  const http = useService();

  const send = (method: string, path: string): Promise<Response> =>
    fetch(http.service.url + path, {
      method: method.toUpperCase(),
      ...(method !== "get" && { headers: JSON_TYPE, body: "{}" }),
    });

  async function operations(): Promise<string[]> {
    const { paths } = (await (await fetch(`${http.service.url}/openapi.json`)).json()) as Documented;
    return Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path.replaceAll(/\{\w+\}/g, `0x${"12".repeat(32)}`)}`),
    );
  }

  for (const [what, network, problem] of [
    ["another chain's", "polygon-mainnet", /^network: this Facilitator does not serve it; use one of local-31337$/],
    ["another chain's CAIP-2 id", "eip155:1", /^network: this Facilitator does not serve it; use one of local-31337$/],
    ["none", "no network!", /^network: must be a network's name or its CAIP-2 id; use one of local-31337$/],
  ] as const) {
    it(`HD38 is refused by every endpoint where it is ${what}, before anything is done`, async () => {
      const all = await operations();
      expect(all).to.have.length.greaterThan(50);
      for (const operation of all.filter((each) => !OF_ALL.includes(each))) {
        const [method = "", path = ""] = operation.split(" ");
        const response = await send(method, `${path}?network=${encodeURIComponent(network)}`);
        const { code, message, details } = (await response.json()) as Problem;
        expect([response.status, code], operation).to.deep.equal([400, "InvalidRequest"]);
        expect(message, operation).to.match(problem);
        expect(details, operation).to.include({ field: "network", in: "query" });
      }
    });
  }

  it("HD38 of the service's own chain is accepted by each of its names", async () => {
    const { address } = await http.world.payer();
    for (const network of ["local-31337", "eip155:31337"]) {
      const query = new URLSearchParams({ token: http.world.contracts.token, network });
      const response = await send("get", `/accounts/${address}?${query}`);
      expect(response.status).to.equal(200);
      expect(((await response.json()) as Account).chainId).to.equal(31_337);
    }
  });

  it("of readiness and of the catalogue may be any other: there is nothing there", async () => {
    const readiness = await send("get", "/readyz?network=polygon-mainnet");
    expect(readiness.status).to.equal(503);
    const listed = await send("get", "/discovery/resources?network=eip155:137");
    expect([listed.status, ((await listed.json()) as { items: unknown[] }).items]).to.deep.equal([200, []]);
    const malformed = await send("get", "/readyz?network=no%20network!");
    expect(malformed.status).to.equal(400);
    expect(((await malformed.json()) as Problem).message).to.match(/^network: must be a network's name/);
  });
});
