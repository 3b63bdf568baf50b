import path from "node:path";
import { expect } from "chai";
import { DEFAULT_FOLDER, HELP, readOptions, WrongOption } from "../../scripts/sandbox/options";
import { sandboxCommand } from "../../sdk/src/cli/commands/sandbox";

const numbersOf = (args: readonly string[], env = {}) =>
  Object.fromEntries(Object.entries(readOptions(args, env).ports).map(([server, { number }]) => [server, number]));

describe("the sandbox's options", () => {
  it("HB2 without any, it takes the usual ports where they are free", () => {
    const { ports, ...options } = readOptions([], {});
    expect(options).to.deep.equal({
      wantsHelp: false,
      exit: false,
      prepare: false,
      verbose: false,
      chainId: 31_337,
      folder: DEFAULT_FOLDER,
    });
    expect(numbersOf([])).to.deep.equal({
      facilitator: 8402,
      provider: 4021,
      specialist: 4022,
      inbox: 4023,
      chain: 0,
      documentation: 4024,
    });
    expect(Object.values(ports).some(({ isRequired }) => isRequired)).to.equal(false);
  });

  it("HB2 `npx turnpike sandbox` has the same, but those of the repository alone", () => {
    const named = [...HELP.matchAll(/^ {2}--([a-z-]+)/gm)].map(([, name = ""]) => name);
    const own = named.filter((name) => !["exit", "verbose", "prepare", "help"].includes(name));
    expect(Object.keys(sandboxCommand.flags)).to.deep.equal(own);
    const { folder } = readOptions(["--chain-id=5"], {}, path.resolve("elsewhere"));
    expect(folder, "where the user works").to.equal(path.resolve("elsewhere/.sandbox"));
  });

  it("HB2 --port numbers all of them, and a flag of its own outranks that", () => {
    expect(numbersOf(["--port", "9000", "--inbox-port", "9100"])).to.deep.equal({
      facilitator: 9000,
      provider: 9001,
      specialist: 9002,
      inbox: 9100,
      chain: 9004,
      documentation: 9005,
    });
    expect(readOptions(["--port", "9000"], {}).ports.provider).to.deep.equal({ number: 9001, isRequired: true });
    expect(readOptions(["--port", "0"], {}).ports.provider).to.deep.equal({ number: 0, isRequired: false });
  });

  it("HB2 the environment says the same, and a flag outranks it", () => {
    const env = {
      TURNPIKE_SANDBOX_PORT: "9000",
      TURNPIKE_SANDBOX_CHAIN_PORT: "9545",
      TURNPIKE_SANDBOX_CHAIN_ID: "84532",
      TURNPIKE_SANDBOX_FOLDER: "elsewhere",
    };
    expect(numbersOf([], env)).to.include({ facilitator: 9000, chain: 9545 });
    expect(numbersOf(["--port", "9500"], env)).to.include({ facilitator: 9500, chain: 9545 });
    expect(readOptions([], env)).to.include({ chainId: 84_532, folder: path.resolve("elsewhere") });
    expect(readOptions(["--folder", "here", "--chain-id", "5"], env)).to.include({
      chainId: 5,
      folder: path.resolve("here"),
    });
  });

  it("HD36 --chains 2 gives the second chain the next id, and 1 is the default", () => {
    expect(readOptions(["--chains", "2"], {}).secondChainId).to.equal(31_338);
    expect(readOptions(["--chain-id", "84532"], { TURNPIKE_SANDBOX_CHAINS: "2" }).secondChainId).to.equal(84_533);
    expect(readOptions(["--chains", "1"], { TURNPIKE_SANDBOX_CHAINS: "2" })).not.to.have.property("secondChainId");
  });

  for (const [args, sentence] of [
    [["--prot", "1"], /^Unknown option '--prot'\. Run npm start -- --help/],
    [["now"], /Unexpected argument 'now'\..*--help/],
    [["--port"], /--port.*--help/],
    [["--port", "65535"], /^--port takes a whole number up to 65530, not "65535"\.$/],
    [["--provider-port", "4e3"], /^--provider-port takes a whole number/],
    [["--provider-port=-1"], /^--provider-port takes a whole number/],
    [["--chain-id", "0"], /^--chain-id takes a whole number above zero\.$/],
    [["--chains", "3"], /^--chains takes 1 or 2, not "3"\.$/],
    [["--port", "9000", "--inbox-port", "9001"], /^The provider and the inbox cannot both use port 9001\.$/],
  ] as const) {
    it(`HB2 refuses ${args.join(" ")} with a sentence`, () => {
      expect(() => readOptions(args, {})).to.throw(WrongOption, sentence);
    });
  }

  it("HB2 --help names every option", () => {
    expect(readOptions(["--help"], {}).wantsHelp).to.equal(true);
    for (const name of [
      "exit",
      "port",
      "facilitator-port",
      "chain-port",
      "documentation-port",
      "chain-id",
      "chains",
      "folder",
      "prepare",
      "help",
    ])
      expect(HELP).to.contain(`--${name} `);
  });
});
