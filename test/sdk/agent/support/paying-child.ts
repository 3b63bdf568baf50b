/** A process that pays or subscribes once with a ledger on disk: its argument is a JSON object. */
import { createAgent, walletFromKey } from "turnpike/agent";
import { fileLedger } from "turnpike/agent/file-ledger";

interface Job {
  readonly key: `0x${string}`;
  readonly ledger: string;
  readonly facilitator: string;
  readonly token: string;
  /** what to pay for */
  readonly url?: string;
  /** what to subscribe to instead */
  readonly planId?: `0x${string}`;
  readonly turnpike?: `0x${string}`;
  /** base units; default 1000000 */
  readonly perDay?: string;
}

const job = JSON.parse(process.argv[2] ?? "{}") as Job;
const agent = createAgent({
  wallet: walletFromKey(job.key),
  policy: { perPayment: 1_000_000n, perDay: job.perDay ?? 1_000_000n, tokens: [job.token] },
  facilitators: [job.facilitator],
  deployments: job.turnpike ? [{ chainId: 31_337, turnpike: job.turnpike }] : [],
  ledger: fileLedger(job.ledger, { staleMs: 20_000 }),
});

async function work(): Promise<boolean> {
  if (job.url !== undefined) return (await agent.pay(job.url)).status === 200;
  return (await agent.subscribe({ planId: job.planId ?? "0x" })).status === "ACTIVE";
}
work().then(
  (isDone) => process.exit(isDone ? 0 : 1),
  () => process.exit(2),
);
