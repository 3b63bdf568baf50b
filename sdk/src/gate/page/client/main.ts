/**
 * The script of a payment page: connect, sign once, present, show. A signed payment is stored before it is sent. While
 * its outcome is unknown it is presented again, and nothing else is signed.
 */
import { decimalText } from "../../../protocol/decimal-text";
import { labelOf, type PageOption, type PageTerms } from "../terms";
import { elementOf, saveLinkOf } from "./content";
import { freshQuote, isSameOption, type PageQuote, signPayment } from "./payment";
import { type Outcome, present } from "./present";
import { canStore, forget, type StoredPayment, store, stored } from "./storage";
import {
  chosenPlace,
  hideChoices,
  lockOptions,
  onAction,
  onChoice,
  showAccount,
  showAction,
  showBought,
  showChoices,
  showOption,
  showOther,
  showPrice,
  showProblem,
  showStatus,
  titleOf,
} from "./view";
import { balanceOf, connect, discoverWallets, Problem, switchTo, type Wallet } from "./wallet";

/** A payment that is still unknown after so many attempts is presented again when the person asks for it. */
const MAX_ATTEMPTS = 40;

/** Between two looks at a payment that was refused after an unknown outcome. */
const REFUSED_WAIT_MS = 10_000;

const terms = JSON.parse(document.getElementById("terms")?.dataset.terms ?? "{}") as PageTerms;
const wallets = discoverWallets();
let quote: PageQuote = { options: terms.options, receivedMs: Date.now() };
let paying: { readonly wallet: Wallet; readonly account: string } | undefined;
let isBusy = false;

const chosen = (): PageOption => {
  const listed = terms.options[chosenPlace()] as PageOption;
  const current = quote.options.find(({ entry }) => isSameOption(entry, listed.entry));
  if (current) return current;
  throw new Problem("This price is no longer offered. Nothing was charged: choose another, or reload the page.");
};

function showChosen(): void {
  const option = terms.options[chosenPlace()] as PageOption;
  const current = quote.options.find(({ entry }) => isSameOption(entry, option.entry)) ?? option;
  showPrice(labelOf(current), `on ${current.network}`);
  showAccount(paying?.account ?? "");
  showAction(paying ? `Pay ${labelOf(current)}` : "Connect a wallet");
}

/** Runs one act at a time, and shows what it failed with. */
async function run(act: () => Promise<void>): Promise<void> {
  if (isBusy) return;
  isBusy = true;
  lockOptions(true);
  try {
    await act();
  } catch (error) {
    const words = error instanceof Problem ? error.message : "Something went wrong on this page. Reload it.";
    showChosen();
    showProblem(words);
  } finally {
    isBusy = false;
    lockOptions(false);
  }
}

function begin(): void {
  if (isBusy) return;
  const found = wallets();
  if (found.length < 2) {
    void run(async () => connectTo(found[0]));
    return;
  }
  showStatus("Choose a wallet.");
  showChoices(
    found.map(({ name }) => name),
    (place) => {
      hideChoices();
      void run(async () => connectTo(found[place]));
    },
  );
}

async function connectTo(wallet: Wallet | undefined): Promise<void> {
  if (!wallet) {
    throw new Problem("No wallet was found in this browser. Install one, or open this page in your wallet's browser.");
  }
  if (!canStore()) {
    throw new Problem(
      "This browser stores nothing for this page, so a reload could pay twice. Allow site data to pay.",
    );
  }
  showAction("Connecting", true);
  showStatus("Confirm the connection in your wallet.", true);
  paying = { wallet, account: await connect(wallet) };
  showPayer();
  wallet.provider.on?.("accountsChanged", (accounts) => {
    if (wallet !== paying?.wallet) return;
    const [account] = Array.isArray(accounts) ? accounts : [];
    paying = typeof account === "string" ? { wallet, account } : undefined;
    // An act that is running goes on with the account that it began with.
    if (!isBusy) showPayer();
  });
}

function showPayer(): void {
  showStatus("");
  offerOthers();
  showChosen();
}

function offerOthers(): void {
  if (paying && wallets().length > 1) showOther("Use another wallet", begin);
  else showOther();
}

async function pay(): Promise<void> {
  if (!paying) return;
  const { wallet, account } = paying;
  const { chainId, network } = chosen();
  const shown = labelOf(chosen());
  showAction("Paying", true);
  showStatus(`Checking your wallet on ${network}.`, true);
  await switchTo(wallet, chainId, network);
  quote = await freshQuote(quote);
  terms.options.forEach(({ entry }, place) => {
    const current = quote.options.find((each) => isSameOption(each.entry, entry));
    if (current) showOption(place, labelOf(current));
  });
  const option = chosen();
  const label = labelOf(option);
  if (label !== shown) throw new Problem(`The price is now ${label}. Nothing was charged: check it, and pay again.`);
  const { entry, decimals, symbol } = option;
  const balance = await balanceOf(wallet, entry.asset ?? "", account);
  if (balance !== undefined && balance < BigInt(entry.maxAmountRequired ?? "0")) {
    const held = `${decimalText(balance, decimals)} ${symbol}`;
    throw new Problem(`This costs ${label}, and the wallet has ${held} on ${network}. Nothing was charged.`);
  }
  showStatus(`Sign in your wallet to pay ${label}.`, true);
  const payment = await signPayment({ wallet, account, option, terms, receivedMs: quote.receivedMs });
  store(payment);
  await settle(payment);
}

/** Presents a stored payment until its outcome is known. */
async function settle(payment: StoredPayment): Promise<void> {
  let current = payment;
  showOther();
  showAction("Paying", true);
  showStatus(waitingText(current), true);
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const outcome = await present(current);
    if (outcome.kind !== "pending" && !isHeld(outcome, current)) return end(outcome, current);
    current = { ...current, isUnknown: true };
    store(current);
    showStatus(isHeld(outcome, current) ? heldText(current) : waitingText(current), true);
    await pause(outcome.kind === "pending" ? outcome.waitMs : REFUSED_WAIT_MS);
  }
  showAction("Check again");
  showStatus("The outcome is not known yet. Nothing else will be signed: check again, or come back later in this tab.");
}

/** A refusal after an unknown outcome counts once the token can no longer move the money. */
const isHeld = (outcome: Outcome, { isUnknown, endsAtMs }: StoredPayment): boolean =>
  outcome.kind === "refused" && (isUnknown === true || !outcome.isFinal) && Date.now() < endsAtMs;

const waitingText = ({ isServed, isUnknown, label }: StoredPayment): string =>
  isServed
    ? "Opening what you paid for."
    : isUnknown
      ? `Your payment of ${label} is not confirmed yet. This page keeps asking, and does not charge you twice.`
      : `Paying ${label}. You can reload this page: it does not charge you twice.`;

const heldText = ({ endsAtMs }: StoredPayment): string =>
  `Your payment was not accepted, but its outcome is not final before ${new Date(endsAtMs).toLocaleTimeString()}. Nothing else is signed until then.`;

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function end(outcome: Exclude<Outcome, { kind: "pending" }>, payment: StoredPayment): void {
  const { label, nonce, isServed } = payment;
  if (outcome.kind === "content") {
    showContent(outcome, payment);
  } else if (outcome.kind === "failed") {
    showAction("Try again");
    showProblem(`${outcome.message} Your payment of ${label} stays in this tab, and trying again signs nothing.`);
  } else if (isServed) {
    startOver();
    showStatus("You paid for this page before. It is no longer kept for you, so opening it again is a new payment.");
  } else if (outcome.kind === "spent") {
    showAction("Check again");
    showOther("Start over", startOver);
    showProblem(
      `Your payment of ${label} was used, but its content did not arrive. Do not pay again: ask the provider, and name the payment ${nonce}.`,
    );
  } else {
    startOver();
    showProblem(refusalText(outcome.reason, outcome.message));
  }
}

function showContent({ content, transaction }: Extract<Outcome, { kind: "content" }>, payment: StoredPayment): void {
  const isPaid = transaction !== undefined;
  if (isPaid) store({ ...payment, isServed: true });
  else if (!payment.isUnknown) forget();
  const paid = isPaid ? `Paid ${payment.label}` : "Opened without a payment";
  const line = content.status >= 400 ? `${paid}. The server answered with status ${content.status}` : paid;
  const receipt = transaction ? `Transaction ${transaction}` : "";
  showBought({ line, receipt, element: elementOf(content, titleOf()), link: saveLinkOf(content) });
}

function startOver(): void {
  forget();
  // Its memo belongs to the payment that has ended.
  quote = { ...quote, receivedMs: 0 };
  offerOthers();
  showChosen();
  showStatus("");
}

function refusalText(reason: string, message: string): string {
  if (/insufficient/i.test(reason)) return "The wallet does not have enough of the token. Nothing was charged.";
  if (reason === "memo_expired" || reason === "window") {
    return "The price was quoted too long ago. Nothing was charged: pay again.";
  }
  return `The payment was not accepted, and nothing was charged. ${message}`;
}

onAction(() => {
  const payment = stored();
  if (payment) void run(() => settle(payment));
  else if (paying) void run(pay);
  else begin();
});
onChoice(showChosen);
showChosen();
const unfinished = stored();
// What an earlier load of this page learned is not known here.
if (unfinished) void run(() => settle({ ...unfinished, isUnknown: true }));
