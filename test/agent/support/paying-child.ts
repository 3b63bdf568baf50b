/** A process that pays once with a ledger on disk, for tests that kill it: arguments are a JSON object. */
import { createAgent, walletFromKey } from "turnpike/agent";
import { fileLedger } from "turnpike/agent/file-ledger";

interface Job {
  readonly key: `0x${string}`;
  readonly ledger: string;
  readonly facilitator: string;
  readonly token: string;
  readonly url: string;
}

const job = JSON.parse(process.argv[2] ?? "{}") as Job;
const agent = createAgent({
  wallet: walletFromKey(job.key),
  policy: { perPayment: 1_000_000n, perDay: 1_000_000n, tokens: [job.token] },
  facilitators: [job.facilitator],
  ledger: fileLedger(job.ledger, { staleMs: 2_000 }),
});
agent.pay(job.url).then(
  (response) => process.exit(response.status === 200 ? 0 : 1),
  () => process.exit(2),
);
