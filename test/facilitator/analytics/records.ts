/** What a provider finds and reads over HTTP, of payments whose text strangers chose. */
import { expect } from "chai";
import { chargeStorySchema, ledgerSchema, paymentStorySchema, searchSchema } from "turnpike/facilitator";
import { type Address, findNetwork, networkOfChain } from "turnpike/protocol";
import { EXPLORERS } from "../../../facilitator/src/config/explorers";
import { paymentToWire } from "../support/payments";
import { expectProblem } from "../support/problem";
import { PRICE, type Service, type ServiceWorld, startServiceWorld } from "../support/service";

const EXPLORER = "https://explorer.example";

const MEMOS = [
  `=HYPERLINK("http://evil","x")`,
  "+1",
  "-1+1",
  "@SUM(A1)",
  "\t=1",
  "\r=1",
  "\ud800x",
  "<img src=x>,;\u202e",
];

describe("Facilitator: records", function () {
  this.timeout(120_000);
  let world: ServiceWorld;
  let service: Service;
  let key: string;
  let other: string;
  const ids: string[] = [];

  before(async () => {
    world = await startServiceWorld();
    service = await world.service({ RENEWALS: "false", EXPLORER_URL: `${EXPLORER}/` });
    key = await service.apiKey();
    other = await service.apiKey({ wallet: await world.payer(0n) });
    for (const memo of MEMOS) {
      const ref = `${memo}`;
      const signed = { ...(await world.signPayment({ payTo: world.provider.address as Address, ref })), memo: ref };
      ids.push(world.idOf(signed));
      const outcome = await service.client.authorize(paymentToWire(signed));
      expect(outcome.kind, JSON.stringify(memo)).to.equal("settled");
    }
    const subscriber = await world.payer(10n * PRICE);
    const signup = await world.signup(subscriber, { permit: 5n * PRICE });
    expect((await service.client.subscribe(signup.request)).kind).to.equal("done");
  });
  after(() => world.stop());

  const get = (path: string, bearer = key) =>
    fetch(service.url + path, { headers: { authorization: `Bearer ${bearer}` } });
  const json = async (path: string): Promise<unknown> => {
    const response = await get(path);
    expect(response.status, path).to.equal(200);
    return response.json();
  };

  it("finds each payment by its memo, whatever it says, and shows it", async () => {
    for (const [place, memo] of MEMOS.entries()) {
      const stored = memo.replace("\ud800", "\ufffd");
      const { memo: shown, status } = paymentStorySchema.parse(await json(`/analytics/payments/${ids[place]}`));
      expect([shown, status]).to.deep.equal([stored, "settled"]);
      // A search ignores blanks around what is typed.
      if (stored !== stored.trim()) continue;
      const { hits } = searchSchema.parse(await json(`/search?q=${encodeURIComponent(stored)}`));
      expect(
        hits.map(({ page }) => page),
        stored,
      ).to.deep.equal([`/payments/${ids[place]}`]);
    }
  });

  it("writes memos into the ledger's CSV as text that no spreadsheet runs", async () => {
    const csv = await (await get("/analytics/ledger.csv")).text();
    const memos = MEMOS.slice(0, 4).map((memo) => `'${memo}`.replaceAll('"', '""'));
    for (const memo of memos) expect(csv).to.include(memo);
    expect(csv).not.to.match(/[,"](?:=|\+|@|\t|\r(?!\n))/);
    expect(csv.match(/^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00,0x/gm)).to.have.length(MEMOS.length + 1);
  });

  it("shows a charge with its deliveries, and as a movement", async () => {
    const { movements } = ledgerSchema.parse(await json("/analytics/ledger?kind=signup"));
    const charge = chargeStorySchema.parse(await json(`/analytics/charges/${movements[0]?.id}`));
    expect(charge).to.deep.include({
      scheme: "signup",
      amount: PRICE,
      refunds: [],
      deliveries: [],
      planId: world.planId,
    });
    expect(movements[0]).to.include({ gross: PRICE, net: PRICE.toString(), subject: charge.idHash });
  });

  it("B22 shows nothing of it to another provider, nor without a key or the scope", async () => {
    const charge = ledgerSchema.parse(await json("/analytics/ledger?kind=signup")).movements[0]?.id;
    for (const path of [`/analytics/payments/${ids[0]}`, `/analytics/charges/${charge}`]) {
      await expectProblem(await get(path, other), 404, "UnknownObject");
      await expectProblem(await fetch(service.url + path), 401, "InvalidApiKey");
    }
    for (const q of [ids[0], charge, world.planId, "reader", MEMOS[1]])
      expect(await (await get(`/search?q=${encodeURIComponent(q ?? "")}`, other)).json()).to.deep.equal({ hits: [] });
    const { movements, totals } = ledgerSchema.parse(await (await get("/analytics/ledger", other)).json());
    expect([movements, totals]).to.deep.equal([[], []]);
    const reports = await service.apiKey({ scopes: ["reports"] });
    await expectProblem(await get("/search?q=a", reports), 403, "ScopeMissing");
    const reader = await service.apiKey({ scopes: ["read"] });
    expect(await (await get(`/analytics/payments/${ids[0]}`, reader)).json()).not.to.have.property("deliveries");
  });

  it("refuses a month, a zone and a cursor that are none", async () => {
    for (const query of [
      "month=2026-13",
      "zone=Mars%2FPhobos",
      "cursor=1",
      `cursor=9223372036854775808.0x${"a".repeat(64)}`,
      "sort=best",
      "kind=gift",
    ])
      await expectProblem(await get(`/analytics/ledger?${query}`), 400, "InvalidRequest");
  });

  it("names the block explorer: the configured one, or that of the network", async () => {
    expect(await service.client.supported()).to.include({ explorer: EXPLORER });
    expect(EXPLORERS[networkOfChain(8453).name]).to.equal("https://basescan.org");
    expect(EXPLORERS[networkOfChain(31_337).name]).to.equal(undefined);
    for (const name of Object.keys(EXPLORERS)) expect(findNetwork(name), name).to.have.property("name", name);
  });
});
