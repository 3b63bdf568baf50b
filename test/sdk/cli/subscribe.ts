import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import type { Hex } from "turnpike/protocol";
import { PRICE, type Relay, relayBeforeEach } from "../agent/support/relay";
import { type Seen, serve } from "../agent/support/servers";
import { addressOf, CHAIN_ID, NETWORK } from "../agent/support/world";
import { expectCode, removeTerminals, type Terminal, terminal } from "./support/run";

describe("command line > subscribe, list, pay --subscription", () => {
  let relay: Relay;
  let planId: Hex;
  let shell: Terminal;
  let url: string;
  relayBeforeEach((fresh) => {
    ({ relay, planId } = fresh);
  });
  beforeEach(async () => {
    const { token, turnpike } = relay.addresses;
    shell = terminal({ TURNPIKE_FACILITATOR_URL: relay.url, TURNPIKE_ADDRESS: turnpike, TURNPIKE_TOKEN: token });
    const terms = () => ({ planId, amount: String(PRICE), interval: 2_592_000, token, network: NETWORK });
    const entry = () => ({
      scheme: "exact",
      network: NETWORK,
      token,
      amount: String(PRICE),
      payTo: addressOf("treasury"),
      hoodlayer: { planId, subscriptionScheme: true, facilitator: relay.url },
    });
    const provider = await serve((request: Seen) =>
      request.headers["x-service-sub"] === undefined
        ? { status: 402, json: { version: "1", accepts: [entry()], plans: [terms()] } }
        : { status: 200, json: { served: true, echo: request.headers["x-service-sub"] } },
    );
    url = `${provider.url}/report`;
  });
  afterEach(removeTerminals);
  const charged = async () => (await relay.token.balanceOf(addressOf("treasury"))) as bigint;

  it("CL6 signs and posts nothing for an end in the past, and signs up without one right after", async () => {
    const refused = await shell.run("subscribe", url, "--max", "10.00", "--until", "2020-01-01");
    expectCode(refused, 2);
    expect(refused.err).to.contain("until").and.to.contain("Nothing was signed");
    expect(relay.seen.filter(({ method }) => method === "POST")).to.deep.equal([]);
    expectCode(await shell.run("subscribe", url, "--max", "10.00"), 0);
  });

  it("CL11 ends with 2 and the reason where its home folder cannot be written, and signs nothing", async () => {
    writeFileSync(join(shell.folder, "file"), "");
    const homes = [
      join(shell.folder, "file", "home"),
      ...(process.platform === "linux" ? ["/proc/1/x", "/proc/none/x/y"] : []),
    ];
    for (const home of homes) {
      shell.env.TURNPIKE_HOME = home;
      const ran = await shell.run("subscribe", url, "--max", "10.00");
      expectCode(ran, 2);
      expect(ran.err)
        .to.match(/(policy file .* cannot be read|ledger .* cannot be written \(E[A-Z]+\))/)
        .and.not.to.contain("Another process");
    }
    expect(await charged()).to.equal(0n);
  });

  it("CL6 CL8 signs up once within --max, uses it, lists it, and never prints its id", async () => {
    expectCode(await shell.run("subscribe", url), 2);
    const dear = await shell.run("subscribe", url, "--max", "9.99");
    expectCode(dear, 3);
    expect(dear.err).to.contain(String(PRICE));
    expectCode(await shell.run("subscribe", url, "--max", "10.00", "--max-overage", "0.01"), 3);
    expect(await charged()).to.equal(0n);

    const printed: string[] = [];
    const run = async (...argv: string[]) => {
      const ran = await shell.run(...argv);
      printed.push(ran.out, ran.err);
      return ran;
    };
    const made = await run("subscribe", url, "--max", "10.00", "--periods", "2", "--json");
    expectCode(made, 0);
    expect(made.json()).to.deep.include({
      planId,
      status: "ACTIVE",
      amount: String(PRICE),
      existing: false,
      chainId: CHAIN_ID,
    });
    expect(await relay.approval(addressOf("payer"))).to.equal(PRICE);
    const again = await run("subscribe", url, "--max", "10.00");
    expectCode(again, 0);
    expect(again.err).to.contain("You have this subscription already");
    expect(await charged()).to.equal(PRICE);

    const listed = await run("list");
    expectCode(listed, 0);
    expect(listed.out).to.contain(`subscription ${made.json().idHash}: ACTIVE`);
    const used = await run("pay", url, "--subscription");
    expectCode(used, 0);
    expect(used.err).to.contain("nothing was paid");
    expect(JSON.parse(used.out)).to.include({ served: true });

    expect(existsSync(join(shell.home, "ledger"))).to.equal(true);
    const id = JSON.parse(used.out).echo as string;
    expect(id).to.match(/^0x/);
    const [, , ...others] = printed;
    expect(printed.slice(0, 6).join(""), "subscribe and list").not.to.contain(id.slice(2));
    expect(others.length).to.be.greaterThan(0);
    expect(readFileSync(join(shell.home, "ledger"), "utf8")).to.contain(made.json().idHash);
  });

  it("ends with 3 where no subscription of the ledger is served, and pays nothing", async () => {
    const ran = await shell.run("pay", url, "--subscription");
    expectCode(ran, 3);
    expect(ran.err).to.contain("`npx turnpike list`");
    expect(await charged()).to.equal(0n);
  });

  it("points to subscribe where a URL sells plans alone", async () => {
    const ran = await shell.run("pay", url, "--max", "20.00");
    expectCode(ran, 3);
    expect(ran.err).to.contain("npx turnpike pay URL --subscription");
    expect(ran.err).to.contain("npx turnpike subscribe URL");
  });
});
