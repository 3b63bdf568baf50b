import { chmodSync } from "node:fs";
import { expect } from "chai";
import { COMMANDS } from "../../../sdk/src/cli/commands";
import { ENVIRONMENT } from "../../../sdk/src/cli/environment";
import { EXIT_CODES } from "../../../sdk/src/cli/exit-codes";
import { testKey } from "../agent/support/world";
import { expectCode, removeTerminals, terminal, writeSecret } from "./support/run";

const KEY = testKey("payer");
const API_KEY = `tpk_${"0".repeat(16)}_${"x".repeat(43)}`;
const PHRASE = Array.from({ length: 12 }, () => "legal").join(" ");
const URL_ARG = "https://api.example/quote";

describe("command line > arguments", () => {
  afterEach(removeTerminals);

  it("lists every command, setting and exit code in its help, and each flag in the command's", async () => {
    const help = await terminal().run("--help");
    expectCode(help, 0);
    for (const { name, summary } of COMMANDS) expect(help.out).to.match(new RegExp(`^  ${name} +\\S`, "m"), summary);
    for (const name of Object.keys(ENVIRONMENT)) expect(help.out).to.contain(name);
    for (const { code } of Object.values(EXIT_CODES)) expect(help.out).to.match(new RegExp(`^  ${code}  \\S`, "m"));
    for (const command of COMMANDS) {
      const { out, code } = await terminal().run(command.name, "--help");
      expect(code).to.equal(0);
      for (const flag of Object.keys(command.flags)) expect(out, command.name).to.contain(`--${flag}`);
      for (const example of command.examples) expect(out).to.contain(example);
    }
  });

  for (const [what, argv] of Object.entries({
    "a private key in an unknown flag": ["pay", URL_ARG, "--private-key", KEY],
    "one with an equals sign": ["pay", URL_ARG, `--key=${KEY}`],
    "one without 0x in a known flag": ["pay", URL_ARG, "--max", KEY.slice(2)],
    "one as a word": ["pay", KEY],
    "one as the command": [KEY],
    "one as a flag's name": ["pay", URL_ARG, `--${KEY.slice(2)}`],
    "an API key": ["listen", "--forward-to", API_KEY],
    "a webhook secret": ["listen", "--cursor", "whsec_AAAAAAAAAAAAAAAAAAAAAAAA"],
    "a recovery phrase": ["pay", URL_ARG, "--purchase", PHRASE],
    "an Authorization header": ["pay", URL_ARG, "--max", "0.10", "--header", "Authorization: Bearer abcdefghij"],
    "a password in the URL": ["quote", "https://someone:hunter2hunter2@api.example/"],
  })) {
    it(`CL1 refuses ${what}, and prints nothing of it`, async () => {
      const ran = await terminal().run(...argv);
      expectCode(ran, 2);
      const printed = ran.out + ran.err;
      for (const secret of [KEY, KEY.slice(2), API_KEY, PHRASE, "AAAAAAAA", "abcdefghij", "hunter2"]) {
        expect(printed).not.to.contain(secret);
      }
      expect(ran.err).to.match(
        /^error: .*(?:are never given on the command line|user name or password|no command).*\nnext: {2}\S/,
      );
    });
  }

  it("CL1 accepts a plan id, which has the form of a key, and no other word of that form", async () => {
    const { code, err } = await terminal().run("subscribe", "https://127.0.0.1:9/", "--plan", KEY);
    expect(code).to.equal(2);
    expect(err).to.contain("Nothing limits what this command may spend");
  });

  it("CL2 prints no key whatever is wrong with the setting or the file", async () => {
    const subject = terminal();
    const file = `${subject.folder}/odd.key`;
    const settings = [KEY.slice(0, -1), `${KEY}ff`, `file:${file}`, `file:${KEY}`, `file:${subject.folder}`];
    writeSecret(file, `${KEY}${KEY}`);
    for (const setting of settings) {
      subject.env.TURNPIKE_WALLET_KEY = setting;
      for (const more of [[], ["--json"]]) {
        const ran = await subject.run("list", ...more);
        expectCode(ran, 2);
        expect(ran.out + ran.err).not.to.contain(KEY.slice(2, 40));
      }
    }
  });

  it("CL2 refuses a key file that other users can read", async () => {
    const subject = terminal();
    chmodSync(`${subject.folder}/wallet.key`, 0o644);
    const ran = await subject.run("list");
    expectCode(ran, 2);
    expect(ran.err).to.contain("chmod 600");
  });

  for (const [argv, message] of [
    [["pya"], "`pya` is no command"],
    [["pay"], "URL is missing"],
    [["pay", "quote"], "URL is no absolute http(s) address"],
    [["pay", URL_ARG, "more"], "takes URL, and got more"],
    [["pay", URL_ARG, "--maximum", "1.00"], "Did you mean --max?"],
    [["pay", URL_ARG, "--max"], "--max needs a value: --max AMOUNT"],
    [["pay", URL_ARG, "--max", "--json"], "--max needs a value: --max AMOUNT"],
    [["pay", URL_ARG, "--max", "5"], "--max 5 could mean whole tokens or base units"],
    [["pay", URL_ARG, "--max", "0.0000001"], "more than 6 decimals"],
    [["pay", URL_ARG, "--max", "1.00", "--max", "9.00"], "--max is given twice"],
    [["pay", URL_ARG, "--json=yes"], "--json takes no value"],
    [["pay", URL_ARG, "--max", "1.00", "--method", "GET", "--data", "x"], "A GET request has no body"],
    [["pay", URL_ARG], "Nothing limits what this command may spend"],
    [["validate", URL_ARG, "--require", "v3"], "--require names an unknown version"],
    [["init", "shop", "x"], "KIND is neither provider nor agent"],
    [["listen", "--forward-to", "http://api.example/hook"], "plain http to another machine"],
  ] as const) {
    it(`says what is wrong with \`${argv.join(" ")}\`, and what to do next`, async () => {
      const ran = await terminal().run(...argv);
      expectCode(ran, 2);
      const text = argv.includes("--json=yes" as never) ? ran.err : ran.err || ran.out;
      expect(text).to.contain(message);
    });
  }

  it("prints an error as one JSON document with --json", async () => {
    const ran = await terminal().run("pay", "--json");
    expect(ran.err).to.equal("");
    expect(ran.json()).to.deep.equal({
      error: {
        code: "Usage",
        message: "URL is missing.",
        remedy: "See `npx turnpike pay --help`.",
        exitCode: 2,
      },
    });
  });

  it("names an audit's missing file before it asks for a chain", async () => {
    const { code, err } = await terminal().run("audit");
    expect(code).to.equal(2);
    expect(err).to.contain("FILE").and.not.contain("RPC");
    const absent = await terminal().run("audit", "none.json");
    expect(absent.code).to.not.equal(0);
    expect(absent.err).to.contain("none.json").and.not.contain("RPC");
  });
});
