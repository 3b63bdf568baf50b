/**
 * Removes each safeguard of settlement in a copy and checks that a named test fails. With all of them in place the same
 * tests pass. `node tools/safeguards.cjs [words]` tries those whose name contains one of the words.
 */
const { spawn } = require("node:child_process");
const { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");

const ROOT = join(__dirname, "..");
const MOCHA = require.resolve("mocha/bin/mocha.js");

/** `keep` occurs exactly once in `file`; `instead` is what is left without the safeguard. */
const SAFEGUARDS = [
  {
    name: "fence",
    file: "facilitator/src/relayer/lease.ts",
    keep: '    .where("lease_epoch", "=", epoch)\n    .where("status", "=", "running")',
    instead: '    .where("status", "=", "running")',
    test: "test/facilitator/chaos/lanes.ts",
    title: "S7 the fence",
  },
  {
    name: "stored bytes",
    file: "facilitator/src/relayer/lane-sender.ts",
    keep: "      await broadcasts.broadcast(raised ?? newest);",
    instead:
      "      const again = { maxFeeWei: BigInt(newest.max_fee_wei) + 1n, priorityFeeWei: BigInt(newest.priority_fee_wei) };\n" +
      "      await broadcasts.broadcast(raised ?? (await this.#options.signing.signAgain(row, again)));",
    test: "test/facilitator/chaos/lanes.ts",
    title: "B10 a pool that forgets everything",
  },
  {
    name: "stored before it is sent",
    file: "facilitator/src/relayer/signing.ts",
    keep: '        onStep("signed");',
    instead:
      '        for (const { raw } of forms) await (globalThis as never as { send(raw: string): Promise<void> }).send(raw);\n        onStep("signed");',
    also: {
      file: "facilitator/src/relayer/lane.ts",
      keep: "  const signing = createSigning({",
      instead:
        "  Object.assign(globalThis, { send: (raw: Hex) => chain.broadcast(raw).catch(() => undefined) });\n  const signing = createSigning({",
    },
    test: "test/facilitator/payments/crash.ts",
    title: 'killed after "signed"',
  },
  {
    name: "stored before it is sent, where it is signed at once",
    file: "facilitator/src/relayer/lane-sender.ts",
    keep: '    if (signed === "lease lost") {\n      for',
    instead:
      '    if (signed !== "lease lost") for (const form of signed) broadcasts.send(form);\n    if (signed === "lease lost") {\n      for',
    test: "test/facilitator/relayer/signed-at-once.ts",
    title: "S7 are stored with the next nonces",
  },
  {
    name: "the key of an upto payment",
    file: "facilitator/src/relayer/signing.ts",
    keep: 'eb.or([eb("sender", "is", null), eb("sender", "=", of.key)])',
    instead: 'eb("status", "=", "queued")',
    test: "test/facilitator/payments/permit2.ts",
    title: "HE9 of many at once",
  },
  {
    name: "evidence: the token's transfer",
    file: "facilitator/src/chain/facts.ts",
    keep: "topic !== TRANSFER_TOPIC || from !== payerTopic",
    instead: "topic !== TRANSFER_TOPIC",
    test: "test/facilitator/indexer/indexer.ts",
    title: "B5 takes no other log for the transfer",
  },
  {
    name: "evidence: payee and amount",
    file: "facilitator/src/payments/projection.ts",
    keep: "transfer.to !== payment.pay_to || transfer.amount !== BigInt(payment.amount)",
    instead: "transfer.amount < 0n",
    test: "test/facilitator/chaos/authorizations.ts",
    title: "B2 S3 the same nonce to two payees",
  },
  {
    name: "evidence: logs and receipts agree",
    file: "facilitator/src/indexer/block-applier.ts",
    keep: "crossCheck(this.#checking, { block, logs, facts, receipts: early })",
    instead: "Promise.resolve([])",
    test: "test/facilitator/chaos/rpc.ts",
    title: "each lie alone",
    env: { CHAOS_ONLY: "logs: invented" },
  },
  {
    name: "evidence: depth",
    file: "facilitator/src/payments/settlement-depth.ts",
    keep: "    if (!isLarge) return true;",
    instead: "    if (!isLarge || isLarge) return true;",
    test: "test/facilitator/chaos/rpc.ts",
    title: "each lie alone",
    env: { CHAOS_ONLY: "broadcast: nonce too low" },
  },
  {
    name: "evidence over Permit2: a direct call",
    file: "facilitator/src/chain/permit2-settlements.ts",
    keep: "transaction.call?.to === log.address ? decodeProxyCall(transaction.call) : undefined",
    instead: "transaction.call && decodeProxyCall({ ...transaction.call, to: log.address })",
    test: "test/facilitator/payments/permit2.ts",
    title: "HE8 a nonce that is spent otherwise",
  },
  {
    name: "evidence over Permit2: calldata by its hash",
    file: "facilitator/src/chain/chain-reader.ts",
    keep: " || (computed !== undefined && computed !== hash)",
    instead: "",
    test: "test/facilitator/chain/transactions.ts",
    title: "its hash proves what it called",
  },
  {
    name: "a head that links to an indexed block",
    file: "facilitator/src/indexer/head-tracker.ts",
    keep: "    if ((await blockAt(store.db, config.chainId, lowest.number))?.hash !== lowest.hash) return;\n",
    instead: "",
    also: {
      file: "facilitator/src/indexer/block-sync.ts",
      keep: "    if (tip.number === lowest.number) await heads.confirm(newest, lowest);\n    while",
      instead: "    await heads.confirm(newest, lowest);\n    while",
    },
    test: "test/facilitator/indexer/head.ts",
    title: "S4 a head that does not link to an indexed block",
  },
  {
    name: "a block that is returned by its height",
    file: "facilitator/src/indexer/read-block.ts",
    keep: "    chain.block(number),\n    chain.logsOfBlock(reported.hash",
    instead: "    reported,\n    chain.logsOfBlock(reported.hash",
    test: "test/facilitator/indexer/head.ts",
    title: "S4 a head that names the last block as its parent",
  },
  {
    name: "a block that extends the newest",
    file: "facilitator/src/indexer/block-writer.ts",
    keep: "below.number === block.number - 1 && below.hash === block.parentHash",
    instead: "below.number === block.number - 1",
    test: "test/facilitator/indexer/head.ts",
    title: "B8 a block whose parent is not the newest block",
  },
  {
    name: "a block that the chain still has",
    file: "facilitator/src/indexer/kept-blocks.ts",
    keep: "      set(common.to, common.hasBranched);\n",
    instead: "",
    test: "test/facilitator/indexer/head-back.ts",
    title: "HD5 on a public chain",
  },
  {
    name: "a proof of the facts that were written",
    file: "facilitator/src/payments/early-proofs.ts",
    keep: "if (!made || !isSame(made.facts, facts))",
    instead: "if (!made)",
    test: "test/facilitator/payments/early-proofs.ts",
    title: "S4 a row that is written with other facts",
  },
  {
    name: "staged events come first",
    file: "facilitator/src/events/feed.ts",
    keep: "    for (const drafts of await takeStaged(tx, chainId)) await this.#append(tx, drafts);\n",
    instead: "",
    test: "test/facilitator/events/staged-events.ts",
    title: "come before any later event",
  },
  {
    name: "one grant",
    file: "facilitator/src/payments/grants.ts",
    keep: "      and ((g.grant_id = a.grant_id and g.is_gate = a.is_gate)",
    instead: "      and (not g.is_gate or (g.grant_id = a.grant_id and g.is_gate = a.is_gate)",
    test: "test/facilitator/payments/grants.ts",
    title: "HA1 a payment that a stock server was granted is granted to no gate",
  },
  {
    name: "a grant of one's own",
    file: "sdk/src/gate/schemes/scheme.ts",
    keep: "  if (!isGranted(at, payment, { transaction, grantId, grant })) {",
    instead: "  if (false as boolean) {",
    test: "test/sdk/gate/core/grants.ts",
    title: "HA2 serves nothing on a false answer of a Facilitator",
  },
  {
    name: "in-flight sum",
    file: "facilitator/src/payments/committed.ts",
    keep: "and p.state in ('queued', 'sent'))",
    instead: "and p.state in ('nothing'))",
    test: "test/facilitator/chaos/inflight.ts",
    title: "B13 what is under way counts",
  },
  {
    name: "in-flight sum of two instances",
    file: "facilitator/src/payments/intake.ts",
    keep: "      await lockBalances(store, tx, acceptances.map(balanceOf));\n",
    instead: "",
    test: "test/facilitator/chaos/inflight.ts",
    title: "B13 what is under way counts",
  },
  {
    name: "in-flight sum at the block of the balance",
    file: "facilitator/src/payments/committed.ts",
    keep: "and p.state = 'settled'",
    instead: "and p.state = 'nothing'",
    test: "test/facilitator/payments/reservations.ts",
    title: "HA11 counts a transfer that was mined after the balance was read",
  },
  {
    name: "reserved sum",
    file: "facilitator/src/payments/committed.ts",
    keep: "r.payment_id <> a.payment_id\n",
    instead: "r.payment_id <> a.payment_id and false\n",
    test: "test/facilitator/payments/reservations.ts",
    title: "HA11 the payer's other payments see the balance less what is reserved",
  },
  {
    name: "a reserved payment's purchase",
    file: "facilitator/src/payments/intake.ts",
    keep: "isReservedElsewhere(chainId)}\n",
    instead: "sql`false`}\n",
    test: "test/facilitator/payments/reservations.ts",
    title: "HA11 a reserved payment buys nothing else",
  },
  {
    name: "reserved sum of what is sent again",
    file: "facilitator/src/payments/ledger.ts",
    keep: "and p.state = 'parked' and not j.is_short)",
    instead: "and p.state = 'parked')",
    test: "test/facilitator/payments/reservations.ts",
    title: "HA11 a payment that did not move is not sent again",
  },
  {
    name: "reservations of two instances",
    file: "facilitator/src/payments/reservations.ts",
    keep: "          await lockBalances(store, tx, acceptances.map(balanceOf));\n",
    instead: "",
    test: "test/facilitator/payments/reservations.ts",
    title: "HA11 a reservation waits for what another process is reserving",
  },
];

/** Everything that the tests read, without installed packages. */
const COPIED = ["artifacts", "cache", "contracts", "deployments", "facilitator", "scripts", "sdk", "test", "tools"];
const FILES = ["hardhat.config.ts", "package.json", "tsconfig.json"];

function copyOfTheTree() {
  const copy = mkdtempSync(join(tmpdir(), "turnpike-safeguards-"));
  const isOurs = (path) => !/[/\\](node_modules|dist)$/.test(path);
  for (const name of COPIED) cpSync(join(ROOT, name), join(copy, name), { recursive: true, filter: isOurs });
  for (const name of FILES) cpSync(join(ROOT, name), join(copy, name));
  for (const home of ["", "facilitator", "sdk"]) {
    mkdirSync(join(copy, home), { recursive: true });
    symlinkSync(join(ROOT, home, "node_modules"), join(copy, home, "node_modules"));
  }
  return copy;
}

/** @returns the file's former text */
function replaceOnce(path, keep, instead) {
  const before = readFileSync(path, "utf8");
  if (before.split(keep).length !== 2) throw new Error(`${path} does not hold exactly once: ${keep}`);
  writeFileSync(
    path,
    before.replace(keep, () => instead),
  );
  return before;
}

function runTest(copy, { test, title, env = {} }) {
  // The tests need nothing of hardhat but a node, which is a separate process: mocha alone starts sooner.
  const loader = ["-r", join(copy, "tools/typescript.cjs"), MOCHA, "--exit", "--timeout", "120000"];
  const args = [...loader, "--grep", title.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), test];
  return new Promise((resolve) => {
    const child = spawn(process.execPath, args, { cwd: copy, env: { ...process.env, ...env } });
    let output = "";
    child.stdout.on("data", (chunk) => {
      output += chunk;
    });
    child.stderr.on("data", (chunk) => {
      output += chunk;
    });
    child.on("close", (code) => {
      const passing = Number(/(\d+) passing/.exec(output)?.[1] ?? 0);
      const failing = Number(/(\d+) failing/.exec(output)?.[1] ?? 0);
      resolve({ passes: code === 0 && passing > 0 && failing === 0, fails: failing > 0, output });
    });
  });
}

async function main(words) {
  const copy = copyOfTheTree();
  let failures = 0;
  try {
    for (const safeguard of SAFEGUARDS.filter(
      ({ name }) => words.length === 0 || words.some((word) => name.includes(word)),
    )) {
      const intact = await runTest(copy, safeguard);
      const patches = [safeguard, ...(safeguard.also ? [safeguard.also] : [])];
      const former = patches.map(({ file, keep, instead }) => [file, replaceOnce(join(copy, file), keep, instead)]);
      const without = await runTest(copy, safeguard);
      for (const [file, text] of former.reverse()) writeFileSync(join(copy, file), text);
      const isProven = intact.passes && without.fails;
      if (!isProven) failures += 1;
      process.stdout.write(
        `${isProven ? "proven" : "NOT PROVEN"}  ${safeguard.name}: ${safeguard.test} "${safeguard.title}"\n`,
      );
      if (!isProven)
        process.stdout.write(
          `with it:\n${intact.output.slice(-3_000)}\nwithout it:\n${without.output.slice(-3_000)}\n`,
        );
    }
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
  return failures === 0 ? 0 : 1;
}

module.exports = { SAFEGUARDS };
if (require.main === module) {
  main(process.argv.slice(2)).then(
    (code) => {
      process.exitCode = code;
    },
    (error) => {
      process.stderr.write(`${error.stack}\n`);
      process.exitCode = 1;
    },
  );
}
