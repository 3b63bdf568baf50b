import { ExactEvmScheme } from "@x402/evm/exact/client";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { privateKeyToAccount } from "viem/accounts";

const account = privateKeyToAccount(process.env.PRIVATE_KEY as `0x${string}`);
const client = new x402Client().register("eip155:84532", new ExactEvmScheme(account));

const fetchWithPayment = wrapFetchWithPayment(fetch, client);
const response = await fetchWithPayment(process.env.REPORT_URL ?? "");
console.log(response.status, await response.text());
