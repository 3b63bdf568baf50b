/**
 * Whether a `SIGN-IN-WITH-X` grants this request. Which subscriptions a wallet has is asked of the Facilitator's index;
 * that each of them is that wallet's, covers the route and is ACTIVE is read from the chain, so the index can hide a
 * subscription but grant none.
 */
import { type Address, type Hex, isTurnpikeError } from "../protocol";
import { judgeIdHash, type MeteredRoute, type SubscriptionVerdict } from "./judge-subscription";
import type { Room } from "./room";
import { readSignIn, type SignInPlace, signInRefusal, useUp } from "./sign-in";

/** Of one wallet, the newest first. */
const MAX_JUDGED = 10;
const MAX_WALLETS = 10_000;

/** Which subscriptions wallets were last seen with; each is judged by the chain again every time. */
const known = new WeakMap<Room, Map<Address, readonly Hex[]>>();

export async function judgeSignIn(
  room: Room,
  route: MeteredRoute,
  place: SignInPlace,
  header: string,
): Promise<SubscriptionVerdict> {
  try {
    const signIn = await readSignIn(room, place, header);
    if (typeof signIn === "string") return signInRefusal(signIn);
    const verdict = await judgeWallet(room, route, signIn.address);
    if (verdict.kind !== "grants") return verdict;
    return (await useUp(room, signIn)) ? verdict : signInRefusal("replayed");
  } catch (error) {
    if (isTurnpikeError(error) && error.status === 503) return { kind: "unavailable", cause: error };
    throw error;
  }
}

async function judgeWallet(room: Room, route: MeteredRoute, wallet: Address): Promise<SubscriptionVerdict> {
  const remembered = walletsOf(room).get(wallet) ?? [];
  const first = await judgeEach(room, route, wallet, remembered);
  if (first?.kind === "grants") return first;
  const owned = await room.ownedBy(wallet);
  const found = owned
    .filter(({ planId }) => route.planIds.includes(planId))
    .sort((a, b) => Number(b.status === "ACTIVE") - Number(a.status === "ACTIVE"))
    .map(({ idHash }) => idHash);
  remember(walletsOf(room), wallet, found);
  return (await judgeEach(room, route, wallet, found)) ?? first ?? NONE;
}

const NONE: SubscriptionVerdict = {
  kind: "refused",
  refusal: {
    code: "SubscriptionNotActive",
    reason: "sign_in_no_subscription",
    message: "This account has no subscription to a plan that covers this resource; see `plans`.",
  },
};

/** @returns the first that grants, else the last answer; undefined when there is nothing to judge */
async function judgeEach(
  room: Room,
  route: MeteredRoute,
  wallet: Address,
  idHashes: readonly Hex[],
): Promise<SubscriptionVerdict | undefined> {
  let last: SubscriptionVerdict | undefined;
  for (const idHash of idHashes.slice(0, MAX_JUDGED)) {
    const verdict = await judgeIdHash(room, route, idHash);
    const isForeign = verdict.kind === "grants" && verdict.payment.subscriber !== wallet;
    if (verdict.kind === "grants" && !isForeign) return verdict;
    if (!isForeign) last = verdict;
  }
  return last;
}

function walletsOf(room: Room): Map<Address, readonly Hex[]> {
  const wallets = known.get(room) ?? new Map();
  known.set(room, wallets);
  return wallets;
}

function remember(wallets: Map<Address, readonly Hex[]>, wallet: Address, idHashes: readonly Hex[]): void {
  if (wallets.size >= MAX_WALLETS) wallets.clear();
  wallets.set(wallet, idHashes);
}
