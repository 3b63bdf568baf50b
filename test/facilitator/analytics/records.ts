/** What a provider finds and reads over HTTP, of payments whose text strangers chose. */
import { expect } from "chai";
import {
  auditListSchema,
  chargeStorySchema,
  createFacilitatorClient,
  labelListSchema,
  ledgerSchema,
  paymentStorySchema,
  searchSchema,
} from "turnpike/facilitator";
import { type Address, findNetwork, networkOfChain } from "turnpike/protocol";
import { EXPLORERS } from "../../../facilitator/src/config/explorers";
import { createLabels } from "../../../facilitator/src/providers/labels";
import { freshStore } from "../../support/store";
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

  it("finds a payment and its payer by how they begin, and by the shortened form that pages show", async () => {
    const { payer, transaction = "" } = paymentStorySchema.parse(await json(`/analytics/payments/${ids[0]}`));
    const found = async (text: string, bearer = key) =>
      searchSchema
        .parse(await (await get(`/search?q=${encodeURIComponent(text)}`, bearer)).json())
        .hits.map(({ page }) => page);
    for (const [whole, page] of [
      [ids[0] ?? "", `/payments/${ids[0]}`],
      [transaction, `/payments/${ids[0]}`],
      [payer, `/payers/${payer}`],
    ] as const)
      for (const part of [
        whole.slice(0, 8),
        whole.slice(2, 9),
        whole.slice(0, 10).toUpperCase().replace("0X", "0x"),
        `${whole.slice(0, 8)}…${whole.slice(-4)}`,
      ]) {
        expect(await found(part), part).to.include(page);
        expect(await found(part, other), part).to.deep.equal([]);
      }
    expect(await found(`${payer.slice(0, 8)}…${payer.endsWith("0000") ? "1111" : "0000"}`)).to.deep.equal([]);
    expect(await found(payer.slice(0, 7)), "five digits").to.deep.equal([]);
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

  const post = (path: string, body: object, bearer = key) =>
    fetch(service.url + path, {
      method: "POST",
      headers: { authorization: `Bearer ${bearer}`, "content-type": "application/json" },
      body: JSON.stringify(body),
    });
  const labelsOf = async (bearer = key) => labelListSchema.parse(await (await get("/labels", bearer)).json()).labels;

  it("labels a payer and a plan, whatever the text, finds both by a part of it, and removes it", async () => {
    const { payer } = paymentStorySchema.parse(await json(`/analytics/payments/${ids[0]}`));
    const text = `Büro <img src=x onerror="a()">\u202e 北`;
    for (const object of [payer, world.planId])
      expect(await (await post("/labels", { object: object.toLowerCase(), text: ` ${text} ` })).json()).to.deep.equal({
        object,
        text,
      });
    expect(await labelsOf()).to.have.deep.members([payer, world.planId].map((object) => ({ object, text })));
    const { hits } = searchSchema.parse(await json(`/search?q=${encodeURIComponent("ONERROR")}`));
    expect(hits.map(({ kind, page }) => [kind, page])).to.have.deep.members([
      ["payer", `/payers/${payer}`],
      ["plan", `/plans/${world.planId}`],
    ]);
    await post("/labels", { object: payer, text: "" });
    const client = createFacilitatorClient({ url: service.url, apiKey: key });
    expect(await client.labels()).to.deep.equal({ kind: "found", value: [{ object: world.planId, text }] });
    await client.setLabel({ object: world.planId, text: "" });
    expect(await labelsOf()).to.deep.equal([]);
    const auditor = await service.apiKey({ scopes: ["keys"] });
    const { entries } = auditListSchema.parse(await (await get("/audit", auditor)).json());
    const acts = entries.filter(({ act }) => act.startsWith("label.")).map(({ act, object }) => [act, object]);
    expect(acts).to.deep.equal([
      ["label.removed", world.planId],
      ["label.removed", payer],
      ["label.set", world.planId],
      ["label.set", payer],
    ]);
  });

  it("B22 shows no label to another provider, and takes one from its owner's acting key alone", async () => {
    await post("/labels", { object: world.planId, text: "mine alone" });
    expect(await labelsOf(other)).to.deep.equal([]);
    expect(await (await get("/search?q=mine", other)).json()).to.deep.equal({ hits: [] });
    const theirs = { object: world.planId, text: "theirs" };
    const unknown = await expectProblem(await post("/labels", theirs, other), 404, "UnknownObject");
    expect(unknown.message).to.match(/^object: 0x\w{40} has no plan 0x/);
    const reader = await service.apiKey({ scopes: ["read"] });
    await expectProblem(await post("/labels", theirs, reader), 403, "ScopeMissing");
    const actor = await service.apiKey({ scopes: ["webhooks"] });
    await expectProblem(await get("/labels", actor), 403, "ScopeMissing");
    expect(await labelsOf(reader)).to.deep.equal([{ object: world.planId, text: "mine alone" }]);
    await post("/labels", { object: world.planId, text: "" }, actor);
  });

  it("refuses a label that is too long, of two lines, of nothing, or one too many, and says what helps", async () => {
    const object = world.planId;
    for (const [body, message] of [
      [{ object, text: "x".repeat(65) }, /^text: is too long: use at most 64 characters/],
      [{ object, text: "a\nb" }, /^text: must be one line of text: remove its control characters/],
      [{ object: "ada", text: "x" }, /^object: must be a payer's address or the id of a plan: 0x and 40 or 64/],
      [{ object }, /^text: /],
    ] as const)
      expect((await expectProblem(await post("/labels", body), 400, "InvalidRequest")).message).to.match(message);
    expect((await post("/labels", { object, text: "😀".repeat(64) })).status, "letters count, not bytes").to.equal(200);
    await post("/labels", { object, text: "" });
  });

  it("keeps at most 1,000 labels of a provider, and then names the remedy", async () => {
    const store = await freshStore();
    try {
      const labels = createLabels(store, 1);
      const caller = { provider: "0x1", keyId: "key", address: "", requestId: "" } as never;
      const set = (object: string, text: string) => labels.set(caller, { object: object as Address, text });
      await store.db
        .insertInto("labels")
        .values(Array.from({ length: 1_000 }, (_, n) => ({ chain_id: 1, provider: "0x1", object: `${n}`, text: "x" })))
        .execute();
      const refused = await set("one more", "x").catch((error: Error) => error.message);
      expect(refused).to.equal("object: there are 1000 labels, the most: remove one by an empty text");
      expect(await set("7", "a known one still changes")).to.have.property("object", "7");
      await set("7", "");
      expect(await set("one more", "x")).to.have.property("text", "x");
    } finally {
      await store.close();
    }
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

  it("begins no range before 1970, however early it ends", async () => {
    for (const path of ["/payer/spend?to=1", "/analytics/overview?to=1"])
      expect(await json(path), path).to.include({ from: 0 });
  });

  it("names the block explorer: the configured one, or that of the network", async () => {
    expect(await service.client.supported()).to.include({ explorer: EXPLORER });
    expect(EXPLORERS[networkOfChain(8453).name]).to.equal("https://basescan.org");
    expect(EXPLORERS[networkOfChain(31_337).name]).to.equal(undefined);
    for (const name of Object.keys(EXPLORERS)) expect(findNetwork(name), name).to.have.property("name", name);
  });
});
