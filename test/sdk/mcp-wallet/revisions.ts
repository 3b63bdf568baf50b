import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect } from "chai";
import { closeAll } from "../agent/support/servers";
import { type Called, calledOf, Desk, type ElicitAnswer, walletProgram } from "./support/host";
import { openShop, type Shop } from "./support/shop";

type Person = (question: string) => ElicitAnswer;

interface AnyHost {
  call(name: string, args?: Record<string, unknown>): Promise<Called>;
  stop(): Promise<void>;
}

/** A host of revision 2026-07-28. @param sent is called with the parameters of each call that it sends */
async function newestHost(
  desk: Desk,
  person?: Person,
  sent?: (params: Record<string, unknown>) => void,
): Promise<AnyHost> {
  const client = new Client(
    { name: "test host", version: "2" },
    {
      versionNegotiation: { mode: { pin: "2026-07-28" } },
      capabilities: person ? { elicitation: { form: {} } } : {},
    },
  );
  if (person) client.setRequestHandler("elicitation/create", ({ params }) => ({ ...person(params.message) }));
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [walletProgram(), desk.file],
    stderr: "ignore",
  });
  const send = transport.send.bind(transport);
  transport.send = (message) => {
    const { method, params } = message as { method?: string; params?: Record<string, unknown> };
    if (method === "tools/call" && params) sent?.(params);
    return send(message);
  };
  await client.connect(transport);
  return {
    call: async (name, given = {}) => calledOf(await client.callTool({ name, arguments: given })),
    stop: () => client.close(),
  };
}

const HOSTS: Record<string, (desk: Desk, person?: Person) => Promise<AnyHost>> = {
  "a host of revision 2026-07-28": newestHost,
  "a wallet that has @modelcontextprotocol/sdk alone": (desk, person) =>
    desk.host({ lacks: "@modelcontextprotocol/server", ...(person && { person }) }),
};

describe("mcp wallet > revisions", () => {
  let desk: Desk;
  let shop: Shop;
  let risingPrice = 0n;
  const open: AnyHost[] = [];

  before(async () => {
    desk = await Desk.open();
    shop = await openShop({ "/report": {}, "/dear": { amount: 900_000n }, "/rising": { amount: () => risingPrice } });
    await desk.configure(shop.facilitator.url, { policy: { askAbove: "$0.60" }, privateOrigins: [shop.url] });
  });
  after(async () => {
    await desk.close();
    await shop.gate.stop();
    await closeAll();
  });
  beforeEach(async () => {
    shop.chain.transfers.length = 0;
    await desk.clearLedger();
  });
  afterEach(async () => {
    for (const host of open.splice(0)) await host.stop();
  });
  const paid = () => shop.chain.transfers.map(({ value }) => value);

  const YES: ElicitAnswer = { action: "accept", content: { approve: true } };

  for (const [name, hostOf] of Object.entries(HOSTS)) {
    async function host(person?: Person): Promise<AnyHost> {
      const opened = await hostOf(desk, person);
      open.push(opened);
      return opened;
    }

    it(`MW7 asks the person above the threshold, and pays only on a clear yes: ${name}`, async () => {
      const answers: ElicitAnswer[] = [
        { action: "decline" },
        { action: "cancel" },
        { action: "accept", content: { approve: false } },
      ];
      const questions: string[] = [];
      let answer: ElicitAnswer = YES;
      const asking = await host((question) => {
        questions.push(question);
        return answer;
      });
      for (answer of answers) {
        const refused = await asking.call("pay", { url: `${shop.url}/dear` });
        expect([refused.isError, refused.facts.reason], JSON.stringify(answer)).to.deep.equal([true, "not_approved"]);
      }
      expect([paid(), questions.length]).to.deep.equal([[], 3]);
      answer = YES;
      const bought = await asking.call("fetch", { url: `${shop.url}/dear` });
      expect(bought.facts.paid?.amount.decimal, bought.whole).to.equal("0.90");
      expect(questions.at(-1)).to.contain("900000 base units").and.to.contain(`${shop.url}/dear`);
      const again = await asking.call("pay", { url: `${shop.url}/dear` });
      expect([again.isError, questions.length, paid()]).to.deep.equal([false, 5, [900_000n, 900_000n]]);
    });

    it(`MW7 an approval covers what was asked, and a rising price is not asked about for ever: ${name}`, async () => {
      const questions: string[] = [];
      risingPrice = 700_000n;
      const asking = await host((question) => {
        questions.push(question);
        risingPrice += 50_000n;
        return YES;
      });
      const refused = await asking.call("pay", { url: `${shop.url}/rising` });
      expect([refused.isError, refused.facts.reason], refused.whole).to.deep.equal([true, "not_approved"]);
      expect(questions.map((question) => /Pay ([0-9.]+)/.exec(question)?.[1])).to.deep.equal(["0.70", "0.75", "0.80"]);
      expect(paid()).to.deep.equal([]);
    });

    it(`MW7 a no is a no, also where the price changes meanwhile: ${name}`, async () => {
      const questions: string[] = [];
      risingPrice = 700_000n;
      const asking = await host((question) => {
        questions.push(question);
        risingPrice += 50_000n;
        return { action: "decline" };
      });
      const refused = await asking.call("pay", { url: `${shop.url}/rising` });
      expect([refused.facts.reason, questions.length, paid()], refused.whole).to.deep.equal(["not_approved", 1, []]);
    });

    it(`MW7 a host that cannot ask pays nothing above the threshold, and what is below it: ${name}`, async () => {
      const silent = await host();
      const refused = await silent.call("pay", { url: `${shop.url}/dear` });
      expect([refused.isError, refused.facts.reason], refused.whole).to.deep.equal([true, "cannot_ask"]);
      expect((await silent.call("pay", { url: `${shop.url}/report` })).isError).to.equal(false);
      expect(paid()).to.deep.equal([500_000n]);
    });
  }

  it("MW7 an answer counts once, and its sealed state cannot be altered", async () => {
    let answer: ElicitAnswer = YES;
    let sent: Record<string, unknown> | undefined;
    let tamper = (state: unknown): unknown => state;
    const asking = await newestHost(
      desk,
      () => answer,
      (params) => {
        if (params.requestState !== undefined) sent ??= { ...params };
        else if (sent) Object.assign(params, { ...sent, requestState: tamper(sent.requestState) });
      },
    );
    open.push(asking);
    expect((await asking.call("pay", { url: `${shop.url}/dear` })).isError).to.equal(false);
    expect([paid(), typeof sent?.requestState]).to.deep.equal([[900_000n], "string"]);
    // What the person said to the first call comes with the next one: they are asked again.
    answer = { action: "decline" };
    const spent = await asking.call("pay", { url: `${shop.url}/dear` });
    expect([spent.isError, spent.facts.reason], spent.whole).to.deep.equal([true, "not_approved"]);
    tamper = (state) => String(state).replace("v1.", "v1.X");
    const forged = await asking.call("pay", { url: `${shop.url}/dear` }).catch((error: { code: number }) => error.code);
    expect(forged).to.equal(-32_602);
    expect(paid()).to.deep.equal([900_000n]);
  });
}).timeout(120_000);
