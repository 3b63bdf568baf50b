/**
 * Serves the wallet's tools by `@modelcontextprotocol/server`, in revision 2026-07-28 and those before. In the new one a
 * server cannot ask while a call runs: a result asks the person.
 */
import { randomBytes } from "node:crypto";
import type { ServerContext } from "@modelcontextprotocol/server" with { "resolution-mode": "import" };
import { AskedQuestions, type AskedState, type Brought, hashOf, QuestionAsked } from "./asked-questions";
import {
  ANSWER_MS,
  APPROVAL,
  INSTRUCTIONS,
  listed,
  personAt,
  run,
  SERVER_INFO,
  type Serving,
  type WalletServer,
} from "./tool-runs";
import { TOOLS, type WalletTool } from "./tools";

/** Loads the optional peer. */
export async function loadServerPackage() {
  const [{ McpServer, createRequestStateCodec, inputRequired, inputResponse }, { serveStdio }] = await Promise.all([
    import("@modelcontextprotocol/server"),
    import("@modelcontextprotocol/server/stdio"),
  ]);
  return { McpServer, createRequestStateCodec, inputRequired, inputResponse, serveStdio };
}

type ServerPackage = Awaited<ReturnType<typeof loadServerPackage>>;

const CLIENT_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";

/** Of the one input that a result asks for. */
const APPROVE = "approve";

/** @returns the connected server */
export function serveInEveryRevision(sdk: ServerPackage, serving: Serving): WalletServer {
  const { McpServer, createRequestStateCodec, inputRequired, serveStdio } = sdk;
  const codec = createRequestStateCodec<AskedState>({ key: randomBytes(32), ttlSeconds: ANSWER_MS / 1_000 });
  const questions = new AskedQuestions();

  async function runOrAsk(tool: WalletTool, args: unknown, context: ServerContext) {
    const person = questions.personOf(broughtBy(sdk, context, hashOf(`${tool.name} ${JSON.stringify(args)}`)));
    try {
      return await run(tool, args, { ...serving, person, signal: context.mcpReq.signal });
    } catch (error) {
      if (!(error instanceof QuestionAsked)) throw error;
      const asked = inputRequired.elicit({ message: error.question, requestedSchema: APPROVAL });
      return inputRequired({ inputRequests: { [APPROVE]: asked }, requestState: await codec.mint(error.state) });
    }
  }

  return serveStdio(({ era }) => {
    const server = new McpServer(SERVER_INFO, { instructions: INSTRUCTIONS, requestState: { verify: codec.verify } });
    const atHost = personAt(server.server);
    for (const tool of TOOLS) {
      server.registerTool(tool.name, listed(tool), (args, context) =>
        era === "modern"
          ? runOrAsk(tool, args, context)
          : run(tool, args, { ...serving, person: atHost, signal: context.mcpReq.signal }),
      );
    }
    return server;
  });
}

function broughtBy({ inputResponse }: ServerPackage, { mcpReq }: ServerContext, call: string): Brought {
  const envelope = mcpReq.envelope as Readonly<Record<string, unknown>> | undefined;
  const capabilities = envelope?.[CLIENT_CAPABILITIES] as
    | { readonly elicitation?: { readonly form?: unknown } }
    | undefined;
  const { elicitation } = capabilities ?? {};
  const response = inputResponse(mcpReq.inputResponses, APPROVE);
  const isApproval = response.kind === "elicit" && response.action === "accept" && response.content?.[APPROVE] === true;
  return {
    call,
    // Without modes it is a form.
    canAsk: elicitation !== undefined && (elicitation.form !== undefined || Object.keys(elicitation).length === 0),
    state: mcpReq.requestState<AskedState>(),
    answer: response.kind === "elicit" ? (isApproval ? "approved" : "declined") : undefined,
  };
}
