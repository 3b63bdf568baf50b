import { wrapFetchWithPayment } from "turnpike/agent";
import { privateKeyToAccount } from "viem/accounts";

const account = privateKeyToAccount(process.env.PRIVATE_KEY as `0x${string}`);
const client = {
  wallet: account,
  policy: { perPayment: 10_000, perDay: 1_000_000 }, // base units: at most $0.01 a payment, $1 a day
  facilitators: [process.env.FACILITATOR_URL ?? ""],
};

const fetchWithPayment = wrapFetchWithPayment(fetch, client);
const response = await fetchWithPayment(process.env.REPORT_URL ?? "");
console.log(response.status, await response.text());
