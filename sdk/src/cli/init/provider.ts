/** The files of a new provider: a node:http server that sells one route, configured for one Facilitator. */
import { type Address, randomBytes, toBase64Url } from "../../protocol";
import type { FacilitatorFacts } from "./facilitator-facts";
import { manifestOf, type ProjectFile } from "./project";

const SERVER = `// Sells GET /quote for 0.05. The settings are in .env; docs: https://www.npmjs.com/package/turnpike
import { createServer } from "node:http";
import { configure, paymentGate } from "turnpike";

await configure();
const gate = paymentGate({ pricing: [{ type: "one-time", amount: 50_000 }] });

const server = createServer((req, res) => {
  if (req.url?.split("?")[0] !== "/quote") return res.writeHead(404).end("Try GET /quote\\n");
  gate(req, res, () => {
    // Only a paid request gets here.
    res.setHeader("content-type", "application/json");
    res.end(JSON.stringify({ price: 7, payer: req.payment.payer }));
  });
});
server.listen(Number(process.env.PORT ?? 3000), () => {
  console.log(\`http://localhost:\${server.address().port}/quote\`);
});
`;

const IGNORED = `node_modules
.env
.turnpike
`;

/** Returns the files of a new provider. @param payTo who receives the payments */
export function providerFiles(
  folder: string,
  { url, network, turnpike, signers, token }: FacilitatorFacts,
  payTo: Address,
): ProjectFile[] {
  const settings = [
    "# Settings of the gate: docs/reference/settings.md of turnpike explains each.",
    `TURNPIKE_NETWORK=${network}`,
    `TURNPIKE_PAY_TO=${payTo}`,
    `TURNPIKE_FACILITATOR_URL=${url}`,
    "# Whose payment proofs count, as the Facilitator announced it when this file was written. Compare them with what",
    "# its operator publishes.",
    `TURNPIKE_FACILITATOR_SIGNERS=${signers.join(",")}`,
    `TURNPIKE_ADDRESS=${turnpike}`,
    `TURNPIKE_TOKEN=${token.address}`,
    `TURNPIKE_TOKEN_NAME="${token.name}"`,
    `TURNPIKE_TOKEN_VERSION="${token.version}"`,
    "# Signs quotes: keep it secret, and the same in every process of this provider.",
    `TURNPIKE_SECRET=${toBase64Url(randomBytes(32))}`,
    "PORT=3000",
    "",
  ].join("\n");
  return [
    { name: "package.json", text: manifestOf(folder, "server.mjs") },
    { name: "server.mjs", text: SERVER },
    { name: ".env", text: settings, isSecret: true },
    { name: ".gitignore", text: IGNORED },
    { name: "README.md", text: README },
  ];
}

const README = `# A provider

\`server.mjs\` sells \`GET /quote\` for 0.05 of the token in \`.env\`.

    npm install
    npm start

In another terminal:

    npx turnpike validate http://localhost:3000/quote
    npx turnpike quote http://localhost:3000/quote

Change the price in \`server.mjs\`, and the payee in \`.env\`. \`.env\` holds a secret and is not committed.
`;
