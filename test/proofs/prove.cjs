/**
 * Proves the lemmas of this folder's contracts on their compiled code, for all arguments. A function whose name starts
 * with `lemma` holds when no path of it ends in a panic: `require` states what is assumed, `assert` what is proven.
 */
const { readFileSync, readdirSync } = require("node:fs");
const path = require("node:path");
const { id } = require("ethers");
const solc = require("solc");
const { init } = require("z3-solver");
const { IntegerTerms } = require("./integers.cjs");
const { FOLD, pathsOf } = require("./symbolic.cjs");

const ROOT = path.resolve(__dirname, "../..");
/** Contracts whose lemmas multiply and divide. */
const OVER_INTEGERS = ["CreditLemmas", "MonthsLemmas"];
const TIMEOUT_MS = 120_000;
const PRUNE_MS = 2_000;

/** Lemmas on months are proven for any calendar: see Months.sol. */
const ANY_CALENDAR = { "contracts/libraries/Calendar.sol": "test/proofs/Months.sol" };

/** Compiles these sources as Turnpike is compiled. @returns contracts by name */
function compileSources(files, replaced = {}) {
  const read = (name) => ({ content: readFileSync(path.join(ROOT, replaced[name] ?? name), "utf8") });
  const input = {
    language: "Solidity",
    sources: Object.fromEntries(files.map((name) => [name, read(name)])),
    settings: {
      viaIR: true,
      evmVersion: "cancun",
      optimizer: { enabled: true, runs: 2_000 },
      outputSelection: Object.fromEntries(files.map((name) => [name, { "*": ["abi", "evm.deployedBytecode.object"] }])),
    },
  };
  const { contracts, errors = [] } = JSON.parse(
    solc.compile(JSON.stringify(input), { import: (name) => ({ contents: read(name).content }) }),
  );
  const failed = errors.filter(({ severity }) => severity === "error");
  if (failed.length > 0) throw new Error(failed.map(({ formattedMessage }) => formattedMessage).join("\n"));
  return Object.assign({}, ...Object.values(contracts));
}

/** @returns the contracts of the lemmas by name */
function compile() {
  const files = readdirSync(__dirname)
    .filter((name) => name.endsWith("Lemmas.sol"))
    .map((name) => `test/proofs/${name}`);
  const isOfMonths = (name) => name.includes("Months");
  return {
    ...compileSources(files.filter((name) => !isOfMonths(name))),
    ...compileSources(files.filter(isOfMonths), ANY_CALENDAR),
  };
}

const widthOf = ({ type }) => (type === "address" ? 160 : type === "bool" ? 1 : Number(/\d+$/.exec(type)?.[0] ?? 256));

function createSolver({ Z3 }) {
  return async (text, timeoutMs) => {
    const context = Z3.mk_context(Z3.mk_config());
    const answer = await Z3.eval_smtlib2_string(context, `(set-option :timeout ${timeoutMs})\n${text}`);
    Z3.del_context(context);
    return answer.trim();
  };
}

const query = (terms, conditions, goal = "") =>
  [...terms.definitions, ...conditions.map((term) => `(assert ${term})`), goal, "(check-sat)"].join("\n");

async function proveFunction({ ask, code, name, inputs, isOverIntegers }) {
  const widths = inputs.map(widthOf);
  const selector = Number.parseInt(id(`${name}(${inputs.map(({ type }) => type)})`).slice(2, 10), 16);
  const isPossible = async (terms, conditions) => (await ask(query(terms, conditions), PRUNE_MS)) !== "unsat";
  const words = isOverIntegers ? { terms: new IntegerTerms(FOLD) } : {};
  const { terms, ends } = await pathsOf({ code, selector, widths, isPossible, ...words });
  if (!ends.some(({ end }) => end === "return")) return "no path returns: its assumptions exclude each other";
  for (const { conditions, end } of ends) {
    if (!end.startsWith("panic")) continue;
    const answer = await ask(query(terms, conditions), TIMEOUT_MS);
    if (answer === "unsat") continue;
    if (answer !== "sat") return `${end}: the solver does not decide (${answer})`;
    const values = inputs.map((_, i) => `a${i}_`).join(" ");
    const model = await ask(`${query(terms, conditions)}\n(get-value (${values}))`, TIMEOUT_MS);
    return `${end} with ${model.replace(/^sat\s*/, "").replaceAll(/\s+/g, " ")}`;
  }
  return undefined;
}

async function main(only) {
  const api = await init();
  const ask = createSolver(api);
  let failed = 0;
  for (const [contract, { abi, evm }] of Object.entries(compile())) {
    const code = Buffer.from(evm.deployedBytecode.object, "hex");
    for (const { name, inputs } of abi.filter((item) => item.name?.startsWith("lemma"))) {
      if (only.length > 0 && !only.some((part) => name.includes(part))) continue;
      const started = Date.now();
      const fault = await proveFunction({ ask, code, name, inputs, isOverIntegers: OVER_INTEGERS.includes(contract) });
      const seconds = ((Date.now() - started) / 1_000).toFixed(1);
      if (fault) failed += 1;
      process.stdout.write(
        `${fault ? "FAILED" : "proven"}  ${contract}.${name}  ${seconds} s${fault ? `\n  ${fault}` : ""}\n`,
      );
    }
  }
  process.stdout.write(failed === 0 ? "All lemmas are proven.\n" : `${failed} lemmas are not proven.\n`);
  process.exit(failed === 0 ? 0 : 1);
}

main(process.argv.slice(2)).catch((cause) => {
  process.stderr.write(`${cause.stack}\n`);
  process.exit(1);
});
