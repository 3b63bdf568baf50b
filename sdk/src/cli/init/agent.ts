/** The files of a new agent: a program that pays for a URL within a policy, with a wallet of its own. */
import { randomBytes, toHex } from "../../protocol";
import type { FacilitatorFacts } from "./facilitator-facts";
import { manifestOf, type ProjectFile } from "./project";

const PROGRAM = `// Requests the URL of the first argument and pays for it, within policy.json. The settings are in .env.
import { readFileSync } from "node:fs";
import { createAgent, walletFromKey } from "turnpike/agent";
import { fileLedger } from "turnpike/agent/file-ledger";
import { requireNetwork } from "turnpike/protocol";

const { TURNPIKE_WALLET_KEY: key, TURNPIKE_NETWORK, TURNPIKE_ADDRESS, TURNPIKE_FACILITATOR_URL } = process.env;
if (!key) {
  console.error("TURNPIKE_WALLET_KEY is not set: give it the wallet's private key, or file: and a path, in the environment or in .env.");
  process.exit(1);
}
let agent;
try {
  agent = createAgent({
    wallet: walletFromKey(key.startsWith("file:") ? readFileSync(key.slice(5), "utf8").trim() : key),
    policy: JSON.parse(readFileSync("policy.json", "utf8")),
    facilitators: [TURNPIKE_FACILITATOR_URL],
    deployments: [{ chainId: requireNetwork(TURNPIKE_NETWORK).chainId, turnpike: TURNPIKE_ADDRESS }],
    ledger: fileLedger("ledger"),
  });
  const [url] = process.argv.slice(2);
  if (!url) {
    console.log(\`The wallet is \${await agent.address()}. Usage: npm start -- https://api.example/quote\`);
  } else {
    const response = await agent.pay(url);
    console.log(response.status, await response.text());
  }
} catch (error) {
  console.error(\`\${error.code ?? error.name}: \${error.message}\${error.remedy ? \` \${error.remedy}\` : ""}\`);
  process.exitCode = 1;
}
await agent?.close();
`;

const IGNORED = `node_modules
.env
wallet.key
ledger*
`;

/** Where the wallet's key is: made here, or in a variable of the user's environment. */
export type WalletOfProject = { readonly kind: "new"; readonly key: string } | { readonly kind: "environment" };

/** Makes a key of its own for a new agent. */
export const newWallet = (): WalletOfProject => ({ kind: "new", key: toHex(randomBytes(32)) });

/** Returns the files of a new agent. */
export function agentFiles(
  folder: string,
  { url, network, turnpike, token }: FacilitatorFacts,
  wallet: WalletOfProject,
): ProjectFile[] {
  const settings = [
    `TURNPIKE_NETWORK=${network}`,
    `TURNPIKE_FACILITATOR_URL=${url}`,
    `TURNPIKE_ADDRESS=${turnpike}`,
    ...(wallet.kind === "new" ? ["TURNPIKE_WALLET_KEY=file:wallet.key"] : []),
    "",
  ].join("\n");
  const policy = { perPayment: "100000", perDay: "1000000", networks: [network], tokens: [token.address] };
  return [
    { name: "package.json", text: manifestOf(folder, "agent.mjs") },
    { name: "agent.mjs", text: PROGRAM },
    { name: "policy.json", text: `${JSON.stringify(policy, null, 2)}\n` },
    { name: ".env", text: settings, isSecret: true },
    { name: ".gitignore", text: IGNORED },
    { name: "README.md", text: README },
    ...(wallet.kind === "new" ? [{ name: "wallet.key", text: `${wallet.key}\n`, isSecret: true }] : []),
  ];
}

const README = `# An agent

\`agent.mjs\` requests a URL and pays for it, at most what \`policy.json\` allows: 0.10 for one payment and 1.00 in 24
hours, in base units of a token with 6 decimals.

    npm install
    npm start                                  # prints the wallet's address: send it some of the token
    npm start -- https://api.example/quote

\`ledger\` keeps unfinished payments, so that a run after a crash pays once. \`.env\`, \`wallet.key\` and \`ledger\` are secret
and not committed.
`;
