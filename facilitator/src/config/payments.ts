/** Which payments are accepted, and how they are batched. */
import { address, addresses, flag, optional, setting, whole } from "./setting";

export const PAYMENTS = {
  batchItems: setting({
    env: "BATCH_ITEMS",
    about: "Payments in one transaction, at most.",
    fallback: "250",
    schema: whole(1, 1_000),
  }),
  batchGas: setting({
    env: "BATCH_GAS",
    about: "Gas limit of one batch, at most.",
    fallback: "15000000",
    danger: "Above 2^24 a transaction is invalid since the Osaka fork.",
    schema: whole(500_000, 16_777_216),
  }),
  batchBytes: setting({
    env: "BATCH_BYTES",
    about: "Bytes of calldata of one batch, at most.",
    fallback: "100000",
    schema: whole(2_000, 120_000),
  }),
  gasPerItem: setting({
    env: "GAS_PER_ITEM",
    about: "Gas that each payment in a batch may use.",
    fallback: "90000",
    danger: "Too little for a token's transfer, and its payments are sent a second time, each alone.",
    schema: whole(60_000, 1_000_000),
  }),
  maxQueueAgeMs: setting({
    env: "MAX_QUEUE_AGE_MS",
    about:
      "Milliseconds that a payment may wait, in each of two queues (to be judged, to be sent). Past that, new ones are refused with 503: by the age of the oldest, or by the wait that the queue's pace lets expect for the next. A payer above its share is refused from half of it, a provider from three quarters.",
    fallback: "10000",
    schema: whole(100, 600_000),
  }),
  maxIntake: setting({
    env: "MAX_INTAKE",
    about:
      "Payments that may wait to be judged and stored; past that, new ones are refused with 503. Fewer may wait when the next one would wait for MAX_QUEUE_AGE_MS. A payer alone may fill half of it, a provider alone three quarters.",
    fallback: "8000",
    schema: whole(1, 100_000),
  }),
  maxLossesPerPayer: setting({
    env: "MAX_LOSSES_PER_PAYER",
    about:
      "Payments of one payer within an hour that cost gas and moved nothing, until the payer is refused and nothing more is sent for it.",
    fallback: "5",
    danger: "Too high, and a payer who empties the wallet in time burns the relayer's gas.",
    schema: whole(1, 1_000_000),
  }),
  maxLossesPerPayee: setting({
    env: "MAX_LOSSES_PER_PAYEE",
    about: "The same for one payee.",
    fallback: "200",
    schema: whole(1, 1_000_000),
  }),
  maxGasPerPayer: setting({
    env: "MAX_GAS_PER_PAYER",
    about:
      "Gas that one payer's payments may cost within an hour, those that settle included, until the payer is refused. Counts payments of contract wallets and payments over Permit2.",
    fallback: "100000000",
    danger: "Too high, and a wallet that burns gas costs the relayer more than its payments are worth.",
    schema: whole(100_000, 100_000_000_000),
  }),
  walletFactories: optional({
    env: "WALLET_FACTORIES",
    about:
      "Factories that may deploy a payer's wallet before its payment settles (ERC-6492), comma-separated addresses; such payments are refused when absent.",
    danger:
      "The relayer calls these contracts with the payer's data and pays the gas: name only factories that deploy wallets.",
    schema: addresses,
  }),
  walletDeployGas: setting({
    env: "WALLET_DEPLOY_GAS",
    about: "Gas that a wallet's deployment may use, in its trial and in its transaction.",
    fallback: "1000000",
    danger: "A factory that burns its gas costs the relayer as much for each payment.",
    schema: whole(100_000, 8_000_000),
  }),
  minWindowSec: setting({
    env: "MIN_WINDOW_SEC",
    about: "Seconds that an authorization must still be valid for to be accepted.",
    fallback: "6",
    danger: "Too short, and authorizations expire in the queue.",
    schema: whole(1, 3_600),
  }),
  maxWindowSec: setting({
    env: "MAX_WINDOW_SEC",
    about: "Seconds that an authorization may be valid for, at most.",
    fallback: "86400",
    schema: whole(60, 31_536_000),
  }),
  permit2: setting({
    env: "PERMIT2",
    about:
      "Whether x402 payments over Permit2 are settled, for payers who approved Permit2 instead of signing for the token. The chain must have Permit2 and x402's proxies.",
    fallback: "false",
    danger:
      "Set it in every process, after all of them run a release that has it. Anyone can submit such a payment first, and through a contract of one's own without evidence: see the wire reference.",
    schema: flag,
  }),
  uptoSigner: optional({
    env: "UPTO_SIGNER",
    about:
      "Relayer key that settles `upto` payments, by its address among RELAYER_KEYS; needs PERMIT2. Absent: `upto` is not offered.",
    danger: "Keep a former one among RELAYER_KEYS for MAX_WINDOW_SEC: payers have signed that nobody else may settle.",
    schema: address,
  }),
  authorizeWaitMs: setting({
    env: "AUTHORIZE_WAIT_MS",
    about: "Milliseconds for which POST /authorize waits for the chain before it answers 202.",
    fallback: "25000",
    schema: whole(0, 120_000),
  }),
} as const;
