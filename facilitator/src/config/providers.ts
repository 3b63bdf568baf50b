import { z } from "zod";
import { address, flag, list, optional, origin, setting, whole } from "./setting";

export const PROVIDERS = {
  publicUrl: optional({
    env: "PUBLIC_URL",
    about:
      "Origin under which browsers reach this service, e.g. https://pay.example.com: what a wallet signs to sign in names it. Without it only a browser on this machine can sign in by wallet.",
    danger: "A wrong one makes wallets warn, and refuses every sign-in; behind a proxy it must be the proxy's.",
    schema: origin,
  }),
  operators: optional({
    env: "OPERATORS",
    about:
      "Wallets whose API keys may also read what concerns the whole service (lanes, balances, costs), comma-separated addresses; nobody's when absent.",
    danger: "A holder of such a key sees the total costs of all providers' transactions.",
    schema: z.string().transform(list).pipe(z.array(address)),
  }),
  keyRequestsPerMinute: setting({
    env: "KEY_REQUESTS_PER_MINUTE",
    about: "Requests with one API key within a minute; 0 for no limit.",
    fallback: "600",
    schema: whole(0, 10_000_000),
  }),
  debitBatchesPerHour: setting({
    env: "DEBIT_BATCHES_PER_HOUR",
    about: "Transactions of debits that are sent for one provider within an hour.",
    fallback: "600",
    danger: "Debits cost the relayer gas and the provider nothing.",
    schema: whole(1, 100_000),
  }),
  webhooksInFlight: setting({
    env: "WEBHOOKS_IN_FLIGHT",
    about: "Webhooks that one process delivers at once.",
    fallback: "64",
    schema: whole(4, 2_000),
  }),
  webhookLogDays: setting({
    env: "WEBHOOK_LOG_DAYS",
    about: "Days for which finished deliveries and their attempts are kept.",
    fallback: "30",
    schema: whole(4, 3_650),
  }),
  allowPrivateWebhooks: setting({
    env: "ALLOW_PRIVATE_WEBHOOKS",
    about: "Whether webhooks may go to private addresses and over plain http: for local work.",
    fallback: "false",
    danger: "Anyone with an API key can then make this machine send requests into its own network.",
    schema: flag,
  }),
  listingsPerProvider: setting({
    env: "LISTINGS_PER_PROVIDER",
    about: "Routes that one provider may list for discovery; 0 accepts no new ones.",
    fallback: "50",
    danger: "Each one makes this service ask its URL again and again.",
    schema: whole(0, 1_000),
  }),
  listingCheckSec: setting({
    env: "LISTING_CHECK_SEC",
    about: "Seconds after which a process with the role webhooks asks the URL of a listing again.",
    fallback: "21600",
    danger: "Listings show prices that are this old at most.",
    schema: whole(60, 604_800),
  }),
  allowPrivateListings: setting({
    env: "ALLOW_PRIVATE_LISTINGS",
    about: "Whether listings may be at private addresses and over plain http: for local work.",
    fallback: "false",
    danger: "Anyone with an API key can then make this machine send requests into its own network.",
    schema: flag,
  }),
} as const;
