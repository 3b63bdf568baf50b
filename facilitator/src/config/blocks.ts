/** How the chain is indexed, and when a block is trusted. */
import { optional, setting, whole } from "./setting";

export const BLOCKS = {
  startBlock: optional({
    env: "START_BLOCK",
    about: "Block from which the chain is read: that of Turnpike's deployment. Default 0 on local chains.",
    danger: "Too late, and earlier plans and subscriptions are unknown here.",
    schema: whole(0),
  }),
  confirmations: setting({
    env: "CONFIRMATIONS",
    about: "Blocks, the transaction's own included, until a payment counts as settled.",
    fallback: "1",
    danger: "1 trusts that the newest block is not reorganised away; right for an L2 with one sequencer only.",
    schema: whole(1, 1_000),
  }),
  largeConfirmations: setting({
    env: "LARGE_CONFIRMATIONS",
    about: "The same for payments of the token's `largeAmount` and above.",
    fallback: "3",
    schema: whole(1, 1_000),
  }),
  finalityDepth: optional({
    env: "FINALITY_DEPTH",
    about: "Blocks after which a reorganisation is taken to be impossible. Default 64; 1 on local chains.",
    danger: "Too small, and a payment may be called failed that still lands.",
    schema: whole(1, 100_000),
  }),
  blockTimeMs: setting({
    env: "BLOCK_TIME_MS",
    about: "Milliseconds between blocks, for pacing batches.",
    fallback: "2000",
    schema: whole(1, 60_000),
  }),
  pollMs: setting({
    env: "POLL_MS",
    about: "Milliseconds between looks at the chain's head; a quarter of it while a block is due.",
    fallback: "250",
    schema: whole(10, 60_000),
  }),
  maxLagSec: setting({
    env: "MAX_LAG_SEC",
    about: "Seconds that the blocks in the database may be behind the chain until /readyz reports it.",
    fallback: "30",
    danger: "Too high, and payments wait unseen for blocks that nobody reads.",
    schema: whole(1, 86_400),
  }),
  rpcTimeoutMs: setting({
    env: "RPC_TIMEOUT_MS",
    about: "Milliseconds until an unanswered RPC request is given up and the next URL asked.",
    fallback: "10000",
    schema: whole(100, 120_000),
  }),
} as const;
