// Measures the cost of each contract operation as a whole transaction, next to the plain token operation on the same
// token in the same run. Prints a table and one JSON line per figure.
// Run: npm run bench:gas
//      npm run bench:gas -- --check     fails when a figure is above bench/gas.snapshot.json
//      npm run bench:gas -- --update    rewrites that file

import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { time } from "@nomicfoundation/hardhat-network-helpers";
import { id } from "ethers";
import { ethers } from "hardhat";
import * as c from "../test/support/contracts";
import { actsOn } from "./gas/acts";
import { figures, gasOf, record } from "./gas/figures";
import { measureTerms } from "./gas/terms";
import { measureUsdc } from "./gas/usdc";

/** Dollars are execution gas at these prices; an L2's data fee comes on top (about as much again on Base). */
const ETH_USD = 3_500;
const L2_GAS_PRICES_GWEI = [0.005, 0.05];

const SNAPSHOT = join(__dirname, "gas.snapshot.json");

async function main(): Promise<void> {
  const w = await c.world();
  const bare = await ethers.deployContract("BareLoop");
  const turnpike = w.turnpike.connect(w.relayer);

  // The relayer and the treasury have used the token before, so no measurement pays for a first-time slot.
  await w.token.mint(w.treasury, 1n);
  await w.token.connect(w.subscriber).approve(w.relayer, c.FOREVER);

  // ---------------------------------------------------------------- plain token operations
  const plain = await gasOf(w.token.connect(w.relayer).transferFrom(w.subscriber, w.treasury, c.PRICE));
  record("token.transferFrom.gas", plain);

  // ---------------------------------------------------------------- plans
  const terms = await c.termsOf(w);
  record("plan.create.gas", await gasOf(w.turnpike.connect(w.provider).createPlan(terms, c.freshSalt(), "{}")));

  // ---------------------------------------------------------------- signup
  const { wallets, signup, loop, due, renewAll, renewal, debits, payAlone, settle } = await actsOn(w, bare);
  const ids: string[] = [];
  const first = await signup(c.present(wallets[0]), 0n, true);
  record("signup.gas", first.gas);
  record("signup.allowance.gas", (await signup(c.present(wallets[1]), c.PRICE, true)).gas);
  record("signup.second.signed.gas", (await signup(c.present(wallets[0]), 0n, false)).gas);
  const subscriber = w.turnpike.connect(w.subscriber);
  const direct = () => {
    const signup = { planId: w.planId, secretHash: c.freshSecretHash() };
    return gasOf(subscriber.subscribe(...c.signupArgs(w.subscriber, signup)));
  };
  record("signup.direct.gas", await direct());
  record("signup.second.gas", await direct());
  for (const wallet of wallets) ids.push((await signup(wallet, c.MAX_CAP, true)).idHash);

  // ---------------------------------------------------------------- bare loops
  const bare1 = await loop(1);
  const bare10 = await loop(10);
  const bare100 = await loop(100);
  const bare200 = await loop(200);
  record("token.bareLoop100.gas", bare100 / 100);

  // ---------------------------------------------------------------- renewals
  await time.increase(c.INTERVAL);
  await due(ids);
  const single = await gasOf(turnpike.renew(c.present(ids[0])));
  record("renewal.single.gas", single);
  record("renewal.single.overheadGas", single - plain, 14_400);
  record("renewal.batch1.overheadGas", (await renewal(ids, 1)) - bare1);
  record("renewal.batch10.overheadGas", ((await renewal(ids, 10)) - bare10) / 10);
  const renewal100 = await renewal(ids, 100);
  record("renewal.batch100.gas", renewal100 / 100);
  record("renewal.batch100.overheadGas", (renewal100 - bare100) / 100, 8_100);
  record("renewal.batch200.overheadGas", ((await renewal(ids, 200)) - bare200) / 200);
  // All are due again at one time, so that the later debits find them ACTIVE.
  await due(ids);
  await renewAll(ids);

  // ---------------------------------------------------------------- debits
  const operator = w.turnpike.connect(w.operator);
  await debits(ids, 200, 0n);
  const debit = await gasOf(operator.debit(c.present(ids[205]), c.PRICE, 0n));
  record("debit.first.gas", debit);
  const again = await gasOf(operator.debit(c.present(ids[205]), c.PRICE, 1n));
  record("debit.single.gas", again);
  record("debit.single.overheadGas", again - plain, 19_500);
  const debit100 = await debits(ids, 100, 1n);
  record("debit.batch100.gas", debit100 / 100);
  record("debit.batch100.overheadGas", (debit100 - bare100) / 100, 11_000);

  // ---------------------------------------------------------------- changes by the subscriber
  const mine = await c.subscribe(w, { maxOverage: 1n });
  const dearer = await c.createPlan(w, { amount: 2n * c.PRICE });
  record("cap.gas", await gasOf(subscriber.setMaxOverage(mine.idHash, 2n, c.NO_AUTH)));
  record("pause.gas", await gasOf(subscriber.pause(mine.idHash, c.NO_AUTH)));
  record("resume.gas", await gasOf(subscriber.resume(mine.idHash, 0n, c.NO_AUTH)));
  record("changePlan.gas", await gasOf(subscriber.changePlan(mine.idHash, dearer, 1n, c.FOREVER, c.NO_AUTH)));
  record("rekey.gas", await gasOf(subscriber.rekey(mine.idHash, id("a fresh secret"), c.NO_AUTH)));
  const other = await c.subscribe(w);
  record("cancel.gas", await gasOf(subscriber.cancel(other.idHash, false, c.NO_AUTH)));

  // ---------------------------------------------------------------- signed one-time payments
  record("token.transferWithAuthorization.gas", await payAlone(c.present(wallets[0])));
  for (const count of [1, 10, 50, 100]) record(`settle.batch${count}.gas`, (await settle(count)) / count);

  await measureUsdc(w, bare);
  await measureTerms(w);

  print();
  const missed = figures.filter(({ value, goal }) => goal !== null && value > goal);
  for (const { figure, value, goal } of missed) console.error(`${figure}: ${value} is above its goal of ${goal}.`);
  const isDearer = process.argv.includes("--check") && !isWithinSnapshot();
  if (process.argv.includes("--update")) writeSnapshot();
  process.exitCode = missed.length > 0 || isDearer ? 1 : 0;
}

/** Fails for a figure above the committed one, and for one that is missing on either side. */
function isWithinSnapshot(): boolean {
  const before: Record<string, number> = JSON.parse(readFileSync(SNAPSHOT, "utf8"));
  const now = new Map(figures.map(({ figure, value }) => [figure, value]));
  const complaints = [...new Set([...Object.keys(before), ...now.keys()])].flatMap((figure) => {
    const [was, is] = [before[figure], now.get(figure)];
    if (was === undefined || is === undefined)
      return [`${figure}: only ${is === undefined ? "in" : "not in"} the snapshot`];
    return is > was ? [`${figure}: ${is}, was ${was}`] : [];
  });
  for (const complaint of complaints) console.error(complaint);
  if (complaints.length === 0) return true;
  console.error("If that is meant: npm run bench:gas -- --update, and commit bench/gas.snapshot.json with the reason.");
  return false;
}

function writeSnapshot(): void {
  const snapshot = Object.fromEntries(figures.map(({ figure, value }) => [figure, value]));
  writeFileSync(SNAPSHOT, `${JSON.stringify(snapshot, null, 2)}\n`);
}

function print(): void {
  const price = (gas: number) =>
    L2_GAS_PRICES_GWEI.map((gwei) => `$${(gas * gwei * 1e-9 * ETH_USD).toFixed(6)}`.padStart(11)).join("");
  const heading = `${"figure".padEnd(38)}${"gas".padStart(9)}${"goal".padStart(9)}`;
  console.log(`${heading}   at ${L2_GAS_PRICES_GWEI.join(" and ")} gwei, ether at $${ETH_USD}`);
  for (const { figure, value, goal } of figures) {
    console.log(`${figure.padEnd(38)}${String(value).padStart(9)}${String(goal ?? "").padStart(9)}${price(value)}`);
  }
  for (const figure of figures) console.log(JSON.stringify(figure));
}

main().catch((cause) => {
  console.error(cause);
  process.exitCode = 1;
});
