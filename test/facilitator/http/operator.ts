import { expect } from "chai";
import {
  API_SCOPES,
  costsSchema,
  funnelSchema,
  operatorOverviewSchema,
  providerFiguresSchema,
  recurringSchema,
  renewalFiguresSchema,
  volumeSchema,
} from "turnpike/facilitator";
import type { Address } from "turnpike/protocol";
import { until } from "../../support/facilitator";
import { paymentToWire } from "../support/payments";
import { expectProblem } from "../support/problem";
import { type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const AMOUNT = 250_000n;

describe("Facilitator: the operator's views", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;
  let operatorKey: string;
  let providerKey: string;
  let paths: string[];

  before(async () => {
    world = await startServiceWorld();
    const operator = await world.payer(0n);
    service = await world.service({ RENEWALS: "false", NATIVE_PRICE: "3000", OPERATORS: operator.address });
    operatorKey = await service.apiKey({ wallet: operator, scopes: ["read"] });
    providerKey = await service.apiKey();
    const document = (await (await fetch(`${service.url}/openapi.json`)).json()) as { paths: Record<string, object> };
    paths = Object.keys(document.paths).filter((path) => path.startsWith("/operator/"));
    for (const payTo of [world.provider.address as Address, world.payee]) {
      const signed = paymentToWire(await world.signPayment({ payTo, amount: AMOUNT }));
      expect((await service.client.authorize(signed)).kind).to.equal("settled");
    }
  });
  after(() => world.stop());

  const get = (path: string, key?: string) =>
    fetch(service.url + path, key === undefined ? {} : { headers: { authorization: `Bearer ${key}` } });
  const json = async (path: string): Promise<unknown> => {
    const response = await get(path, operatorKey);
    expect(response.status, path).to.equal(200);
    return response.json();
  };

  it("B22 show nothing to a provider, whatever its key may do, nor to anyone without a key", async () => {
    expect(paths.length).to.be.greaterThan(12);
    const keys = [providerKey];
    for (const scope of API_SCOPES) keys.push(await service.apiKey({ scopes: [scope] }));
    for (const path of paths) {
      await expectProblem(await get(path), 401, "InvalidApiKey");
      for (const key of keys) await expectProblem(await get(path, key), 403, "ScopeMissing");
      // What one asks for does not change who one is.
      await expectProblem(await get(`${path}?provider=${world.provider.address}`, providerKey), 403, "ScopeMissing");
    }
  });

  it("are of all providers together, where a provider's are of one", async () => {
    const overview = operatorOverviewSchema.parse(await json("/operator/overview"));
    expect(overview.volume).to.deep.equal({ count: 2, amount: 2n * AMOUNT });
    expect(overview.providers).to.equal(2);
    const { providers } = providerFiguresSchema.parse(await json("/operator/providers"));
    expect(providers.map(({ amount }) => amount)).to.deep.equal([AMOUNT, AMOUNT]);
    const { points } = volumeSchema.parse(await json("/operator/volume?grain=hour&days=2"));
    expect(points.reduce((sum, { amount }) => sum + amount, 0n)).to.equal(2n * AMOUNT);
    expect(funnelSchema.parse(await json("/operator/funnel")).steps[2]).to.include({ step: "settled", count: 2 });
    recurringSchema.parse(await json("/operator/recurring"));
    renewalFiguresSchema.parse(await json("/operator/renewals"));
  });

  it("return what a payment has cost in gas, in the chain's coin and in cents, once it is final", async () => {
    const settled = async () => {
      const { purposes } = costsSchema.parse(await json("/operator/costs"));
      return purposes.find(({ purpose }) => purpose === "settle");
    };
    await world.chain.provider.send("hardhat_mine", ["0x100"]);
    await until(async () => (await settled())?.items === 2, "both payments are final", 100_000);
    const cost = await settled();
    expect(cost?.gasPerItem).to.be.within(20_000, 200_000);
    const wei = Number(cost?.weiPerItem);
    expect(cost?.centsPerItem).to.be.closeTo((wei / 1e18) * 3_000 * 100, (wei / 1e18) * 300_000 * 0.001 + 1e-9);
    const csv = await (await get("/operator/costs.csv", operatorKey)).text();
    expect(csv).to.match(/^day,purpose,transactions,items,gas,wei,centsPerItem\r\n.*,settle,/);
  });

  it("B22 end for a key when its wallet is no operator's any more", async () => {
    await service.stop();
    const later = await world.service({ RENEWALS: "false" });
    for (const path of paths) {
      const answer = await fetch(later.url + path, { headers: { authorization: `Bearer ${operatorKey}` } });
      await expectProblem(answer, 403, "ScopeMissing");
    }
  });
});
