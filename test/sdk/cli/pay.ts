import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { serve } from "../agent/support/servers";
import { startStandardServer } from "../agent/support/standard-server";
import { addressOf, marketBeforeEach, startProvider, TOKEN, testKey } from "../agent/support/world";
import { expectCode, removeTerminals, type Terminal, terminal } from "./support/run";

describe("command line > pay, quote, list", () => {
  const market = marketBeforeEach();
  let shell: Terminal;
  beforeEach(() => {
    shell = terminal({ TURNPIKE_FACILITATOR_URL: market.facilitator.url });
  });
  afterEach(removeTerminals);
  const pay = (...flags: string[]) => shell.run("pay", `${market.provider.url}/data`, ...flags);

  it("pays within --max, prints the answer, and says on standard error what it paid", async () => {
    const ran = await pay("--max", "0.50");
    expectCode(ran, 0);
    expect(JSON.parse(ran.out)).to.include({ data: "paid content" });
    expect(ran.err).to.match(new RegExp(`^HTTP 200; paid 0\\.50 \\(500000 base units\\) to ${addressOf("provider")}`));
    expect(market.chain.transfers).to.have.length(1);
  });

  it("prints one JSON document with --json: the receipt and the body", async () => {
    const ran = await pay("--max", "500000units", "--json");
    expectCode(ran, 0);
    const { status, paid, receipt, body } = ran.json();
    expect({ status, paid, amount: receipt.amount, payTo: receipt.payTo }).to.deep.equal({
      status: 200,
      paid: true,
      amount: "500000",
      payTo: addressOf("provider"),
    });
    expect(JSON.parse(body)).to.include({ data: "paid content" });
  });

  it("sends method, headers and body as they are given", async () => {
    writeFileSync(join(shell.folder, "job.json"), '{"size":3}');
    const ran = await pay("--max", "1.00", "--data", "@job.json", "--header", "X-Tag: a: b");
    expectCode(ran, 0);
    const paid = market.provider.seen.at(-1);
    expect([paid?.method, paid?.body, paid?.headers["x-tag"]]).to.deep.equal(["POST", '{"size":3}', "a: b"]);
  });

  it("writes the body to a file with --output, and pays nothing when it could not", async () => {
    expectCode(await pay("--max", "1.00", "--output", "none/there.json"), 2);
    expect(market.chain.transfers).to.have.length(0);
    const ran = await pay("--max", "1.00", "--output", "answer.json");
    expectCode(ran, 0);
    expect(ran.out).to.equal("");
    expect(JSON.parse(readFileSync(join(shell.folder, "answer.json"), "utf8"))).to.include({ data: "paid content" });
  });

  it("CL6 pays nothing above --max, and nothing above the policy file whatever --max says", async () => {
    const dear = await pay("--max", "0.49");
    expectCode(dear, 3);
    expect(dear.err).to.contain("0.50 (500000 base units)").and.to.contain("Raise --max");
    mkdirSync(shell.home, { recursive: true });
    writeFileSync(join(shell.home, "policy.json"), JSON.stringify({ perPayment: "499999", perDay: "10000000" }));
    expectCode(await pay("--max", "5.00"), 3);
    expectCode(await pay(), 3);
    expect([market.chain.transfers.length, market.facilitator.signatures.size]).to.deep.equal([0, 0]);
  });

  it("CL6 counts every command of the day against the policy file's perDay", async () => {
    const policy = join(shell.folder, "budget.json");
    writeFileSync(policy, JSON.stringify({ perPayment: 500_000, perDay: 900_000, tokens: [TOKEN] }));
    expectCode(await pay("--policy", policy), 0);
    const second = await pay("--policy", policy);
    expectCode(second, 3);
    expect(second.err).to.contain("raise perDay in the policy file");
    expect(second.err).to.contain("0.50 (500000 base units) of 0.90 (900000 base units) are taken");
    expect(market.chain.transfers).to.have.length(1);
  });

  it("CL6 shows what to write where the policy file is missing", async () => {
    const ran = await pay("--policy", "nowhere.json");
    expectCode(ran, 2);
    expect(ran.err).to.contain("nowhere.json does not exist");
    expect(ran.err).to.contain('{ "perPayment": "100000", "perDay": "1000000" }');
  });

  it("CL6 refuses a policy file with a misspelled limit", async () => {
    const policy = join(shell.folder, "budget.json");
    writeFileSync(policy, JSON.stringify({ perPayment: 500_000, perDay: 900_000, perPayeee: 1 }));
    const ran = await pay("--policy", policy);
    expectCode(ran, 2);
    expect(ran.err).to.contain("perPayeee");
    expect(market.chain.transfers).to.have.length(0);
  });

  it("CL5 a command that is repeated after a crash presents the same payment: one is made", async () => {
    // The ledger as a crash leaves it: copied while the provider holds the paid request.
    const crashed = join(shell.folder, "crashed");
    const stopped = new AbortController();
    shell.io.signal = stopped.signal;
    shell.io.fetch = async (input, init) => {
      if (new Headers(init?.headers).has("X-PAYMENT")) {
        cpSync(join(shell.home, "ledger"), join(crashed, "ledger"));
        stopped.abort();
      }
      return fetch(input, init);
    };
    expectCode(await pay("--max", "0.50"), 4);
    expect(market.chain.transfers).to.have.length(1);
    shell.env.TURNPIKE_HOME = crashed;
    delete shell.io.signal;
    delete shell.io.fetch;
    const again = await pay("--max", "0.50");
    expectCode(again, 0);
    expect(again.err).to.contain("paid by an earlier command");
    expect([market.chain.transfers.length, market.facilitator.signatures.size]).to.deep.equal([1, 1]);
  });

  it("CL5 a payment that is not accepted yet ends with 4, and the repeated command pays once", async () => {
    market.provider.steps.push("402", "402", "402", "402");
    const first = await pay("--max", "0.50", "--json");
    expectCode(first, 4);
    expect(first.json().error).to.include({ code: "InvalidPaymentProof", exitCode: 4 });
    const again = await pay("--max", "0.50");
    expectCode(again, 0);
    expect(market.chain.transfers).to.have.length(1);
  });

  it("CL6 presents no earlier payment that is above this command's --max", async () => {
    market.provider.steps.push("402", "402", "402", "402");
    await pay("--max", "0.50");
    const presented = market.provider.seen.length;
    const lower = await pay("--max", "0.10");
    expectCode(lower, 3);
    expect(lower.err).to.contain("An earlier command signed 0.50 (500000 base units)");
    expect(market.provider.seen.length).to.equal(presented);
  });

  it("CL5 a purchase with a name is paid once, however often it is repeated", async () => {
    market.provider.replays = true;
    expectCode(await pay("--max", "0.50", "--purchase", "march report"), 0);
    expectCode(await pay("--max", "0.50", "--purchase", "march report"), 0);
    expect(market.chain.transfers).to.have.length(1);
  });

  it("CL4 pays nothing where the server redirects to another origin, and sends nothing there", async () => {
    const elsewhere = await startProvider(market.chain, market.facilitator.url);
    const redirecting = await serve(() => ({ status: 302, headers: { location: `${elsewhere.url}/data` } }));
    const ran = await shell.run("pay", redirecting.url, "--max", "5.00");
    expectCode(ran, 3);
    expect(ran.err).to.contain("redirects to another origin");
    expect([elsewhere.seen.length, market.chain.transfers.length]).to.deep.equal([0, 0]);
    const priced = await shell.run("quote", redirecting.url);
    expect(priced.code).to.equal(1);
    expect(elsewhere.seen.length).to.equal(0);
  });

  it("pays stock x402 servers of both versions", async () => {
    market.chain.nowSec = Math.floor(Date.now() / 1_000);
    for (const version of [1, 2] as const) {
      const server = await startStandardServer(market.chain, { version });
      expectCode(await shell.run("pay", server.url, "--max", "0.01"), 0);
    }
    expect(market.chain.transfers).to.have.length(2);
  });

  it("says which setting to change where the Facilitator or the token is not configured", async () => {
    delete shell.env.TURNPIKE_FACILITATOR_URL;
    expect((await pay("--max", "0.50")).err).to.contain("Set TURNPIKE_FACILITATOR_URL");
    shell.env.TURNPIKE_FACILITATOR_URL = market.facilitator.url;
    delete shell.env.TURNPIKE_TOKEN;
    expect((await pay("--max", "0.50")).err).to.contain("TURNPIKE_TOKEN");
    expect(market.chain.transfers).to.have.length(0);
  });

  it("CL3 makes escape sequences in a server's text visible, in the answer, in offers and in errors", async () => {
    const hostile = "\u001b]0;owned\u0007\u009b2J\u202egnp.exe\r\u2028";
    const raw = await serve(() => ({ status: 200, json: undefined, headers: { "x-a": "b" } }));
    shell.io.fetch = async (input, init) => {
      const url = String(input);
      if (url.startsWith(raw.url)) return new Response(`a\tb\n${hostile}`, { status: 500 });
      return fetch(input, init);
    };
    const free = await shell.run("pay", raw.url, "--max", "1.00");
    const bare = /(?![\t\n])\p{Cc}|[\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/u;
    expect(free.code).to.equal(1);
    expect(free.out).not.to.match(bare);
    expect(free.out).to.contain("a\tb\n\\u001b]0;owned\\u0007\\u009b2J\\u202egnp.exe\\u000d\\u2028");
    const json = await shell.run("pay", raw.url, "--max", "1.00", "--json");
    expect(json.out).not.to.match(bare);
    expect(json.json().body, "the same text when it is parsed").to.equal(`a\tb\n${hostile}`);
    const lying = await startProvider(market.chain, market.facilitator.url, {
      tamper: (entry) => ({
        ...entry,
        network: "local-31337",
        hoodlayer: { facilitator: `https://evil.example/${hostile}` },
      }),
      body: (body) => ({ ...body, plans: [planOf(hostile)] }),
    });
    for (const command of [["quote"], ["validate"], ["pay", "--max", "1.00"]]) {
      const ran = await shell.run(command[0] ?? "", lying.url, ...command.slice(1));
      expect(ran.out + ran.err).not.to.match(bare);
    }
  });

  it("quotes every offer without a wallet, and judges it by the limits that are given", async () => {
    delete shell.env.TURNPIKE_WALLET_KEY;
    const open = await shell.run("quote", market.provider.url);
    expectCode(open, 0);
    expect(open.out)
      .to.contain("one-time: 0.50 (500000 base units) for one request")
      .and.to.contain("your limits: none; `pay` needs --max or a policy file");
    const within = await shell.run("quote", market.provider.url, "--max", "0.50");
    expect(within.out).to.contain("your limits: allowed");
    const limited = await shell.run("quote", market.provider.url, "--max", "0.10", "--json");
    expect(limited.json().options[0]).to.include({ verdict: "refuse", reason: "limit", amount: "500000" });
    delete shell.env.TURNPIKE_FACILITATOR_URL;
    const unknown = await shell.run("quote", market.provider.url, "--max", "0.50");
    expect(unknown.out).to.contain("your limits: refuse: facilitator\n    Set TURNPIKE_FACILITATOR_URL to ");
    expect(existsSync(shell.home), "nothing is written").to.equal(false);
    expect(market.chain.transfers).to.have.length(0);
  });

  it("lists the payments of the ledger, and CL2 prints no key in any command", async () => {
    const printed: string[] = [];
    for (const argv of [
      ["pay", market.provider.url, "--max", "0.50"],
      ["pay", market.provider.url, "--max", "0.10", "--json"],
      ["list"],
      ["list", "--payments", "--json"],
    ]) {
      const ran = await shell.run(...argv);
      printed.push(ran.out, ran.err);
    }
    expect(printed.at(-2)).to.contain('"state": "served"');
    expect(printed[4]).to.match(/^payment .*served: 0\.50 \(500000 base units\) to 0x/m);
    const key = testKey("payer");
    for (const text of printed) expect(text.toLowerCase()).not.to.contain(key.slice(2));
  });

  it("CL2 hides the key even where a server answers with it", async () => {
    const key = testKey("payer");
    const echo = await serve(() => ({ status: 200, json: { key, upper: key.slice(2).toUpperCase() } }));
    const ran = await shell.run("pay", echo.url, "--max", "1.00");
    expect(ran.out.toLowerCase()).not.to.contain(key.slice(2));
    expect(ran.out).to.contain("[hidden]");
  });

  it("ends with 5 where the server cannot be reached, and names the reason", async () => {
    const gone = await serve(() => ({ status: 200 }));
    await gone.close();
    for (const [command, ...flags] of [["pay", "--max", "1.00"], ["quote"], ["validate"]]) {
      const ran = await shell.run(command ?? "", gone.url, ...flags);
      expectCode(ran, 5);
      expect(ran.err).to.contain("ECONNREFUSED");
    }
  });
});

const planOf = (name: string) => ({
  planId: `0x${"5a".repeat(32)}`,
  amount: "10000000",
  interval: 2_592_000,
  token: TOKEN,
  network: "local-31337",
  payTo: addressOf("provider"),
  name,
});
