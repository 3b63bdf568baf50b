/** How transactions are sent, and what they may cost. */
import { amount, flag, setting, whole } from "./setting";

export const RELAYING = {
  lanesInFlight: setting({
    env: "LANE_IN_FLIGHT",
    about: "Transactions of one key that may wait in the pool.",
    fallback: "16",
    danger: "Public pools drop more than 16 per key.",
    schema: whole(1, 64),
  }),
  laneLeaseMs: setting({
    env: "LANE_LEASE_MS",
    about:
      "Milliseconds until the key of a process that was killed or froze is taken over; the process renews it six times meanwhile.",
    fallback: "7000",
    danger: "Too short, and a process that a busy machine pauses loses its keys; nothing is sent twice.",
    schema: whole(1_000, 600_000),
  }),
  bumpAfterMs: setting({
    env: "BUMP_AFTER_MS",
    about: "Milliseconds without inclusion after which the fee of the oldest transaction is raised.",
    fallback: "20000",
    schema: whole(500, 3_600_000),
  }),
  maxFeePerGasWei: setting({
    env: "MAX_FEE_PER_GAS_WEI",
    about: "Ceiling of the fee per gas, in wei; nothing is sent above it.",
    fallback: "100000000000",
    danger: "Too high, and a fee spike empties the relayer; too low, and payments wait.",
    schema: amount,
  }),
  priorityFeeWei: setting({
    env: "PRIORITY_FEE_WEI",
    about: "Tip per gas, in wei, of a first attempt.",
    fallback: "1000000",
    schema: amount,
  }),
  maxFeePerDayWei: setting({
    env: "MAX_FEE_PER_DAY_WEI",
    about: "Ceiling of what one key may commit to fees within 24 hours, in wei, replacements included.",
    fallback: "1000000000000000000",
    schema: amount,
  }),
  minBalanceWei: setting({
    env: "MIN_BALANCE_WEI",
    about: "Relayer balance, in wei, below which health reports the key as low and new payments are refused.",
    fallback: "1000000000000000",
    schema: amount,
  }),
  adoptNonce: setting({
    env: "ADOPT_NONCE",
    about: "Take the chain's nonce at the start where the chain is ahead of the database (after restoring a backup).",
    fallback: "false",
    danger: "Hides that somebody else uses the key.",
    schema: flag,
  }),
} as const;
