import { JsonRpcProvider, Wallet } from "ethers";
import { createPlan } from "turnpike/chain";

const provider = new JsonRpcProvider(process.env.TURNPIKE_RPC_URL);
const signer = new Wallet(process.env.PROVIDER_KEY ?? "", provider);
const { planId } = await createPlan(signer, process.env.TURNPIKE_ADDRESS as `0x${string}`, {
  token: process.env.TURNPIKE_TOKEN as `0x${string}`,
  amount: 10_000_000n, // base units per period: 10.00
  months: 1, // or intervalSec
  graceSec: 86_400, // service after a period while its renewal is awaited
  metadata: JSON.stringify({ name: "Pro" }),
});
console.log(planId); // a gate's plan
provider.destroy();
