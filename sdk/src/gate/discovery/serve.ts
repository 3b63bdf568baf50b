/** Serves a provider's document, by one handler that every framework mounts: it answers in the form that it was asked in. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type JsonObject, sha256, toBase64Url, utf8ToBytes } from "../../protocol";
import { type Answer, CORS_HEADERS, errorAnswer } from "../core/answer";
import { mergedDocument, type OpenApiDocument } from "./document";
import type { ListedRoute } from "./payment-info";

/** Fastify's reply, as far as it is used. */
interface Reply {
  code(status: number): unknown;
  headers(headers: Record<string, string>): unknown;
  send(body: string): unknown;
}

/** A handler of GET and HEAD /openapi.json: of node:http and Express, Hono, Fastify, Next.js, and `(Request) => Response`. */
export interface OpenApiHandler {
  (request: Request): Promise<Response>;
  (context: { readonly req: { readonly raw: Request } }): Promise<Response>;
  (request: { readonly raw: IncomingMessage }, reply: Reply): Promise<unknown>;
  (request: IncomingMessage, response: ServerResponse): Promise<unknown>;
  /**
   * Returns the document as it is served: await it at start-up to learn of what is wrong. Another provider may merge it.
   * @throws ConfigError for a conflict, naming the field; Unavailable while terms cannot be read
   */
  document(): Promise<OpenApiDocument>;
}

/** What a handler serves. */
export interface ServedDocument {
  /** of the application, checked */
  readonly document: JsonObject;
  /** what is known of the provider when it is asked */
  known(): { readonly routes: readonly ListedRoute[]; readonly publicUrl: string | undefined };
}

/** Creates the handler. */
export function openApiHandler({ document, known }: ServedDocument): OpenApiHandler {
  const merged = () => mergedDocument({ document, ...known() });
  const handler = async (first: unknown, second?: unknown): Promise<unknown> => {
    const request = first as { headers?: unknown; req?: { raw?: unknown }; raw?: unknown };
    const fetched = isFetched(request) ? request : isFetched(request.req?.raw) ? request.req.raw : undefined;
    if (fetched) {
      const { status, headers, body } = await answerTo(fetched.method, fetched.headers.get("if-none-match"), merged);
      return new Response(body === "" ? null : (body as string), { status, headers });
    }
    const reply = isReply(second) ? second : undefined;
    const message = (reply ? request.raw : first) as IncomingMessage;
    const answer = await answerTo(message.method, message.headers["if-none-match"], merged);
    if (reply) {
      reply.code(answer.status);
      reply.headers({ ...answer.headers });
      return reply.send(answer.body as string);
    }
    const response = second as ServerResponse;
    for (const [name, value] of Object.entries(answer.headers)) response.setHeader(name, value);
    response.statusCode = answer.status;
    if (answer.body !== "") response.setHeader("Content-Length", Buffer.byteLength(answer.body));
    return response.end(answer.body);
  };
  return Object.assign(handler as OpenApiHandler, {
    document: async () => (await merged()) as unknown as OpenApiDocument,
  });
}

const isFetched = (value: unknown): value is Request =>
  typeof (value as Request | undefined)?.headers?.get === "function";

const isReply = (value: unknown): value is Reply =>
  typeof (value as Reply | undefined)?.code === "function" && typeof (value as Reply).send === "function";

const HEADERS = { "Access-Control-Allow-Origin": "*", "Cache-Control": "public, max-age=300" };

/** GET and HEAD of the document; crawlers ask again with its ETag. */
async function answerTo(
  method: string | undefined,
  tags: string | null | undefined,
  merged: () => Promise<JsonObject>,
): Promise<Answer> {
  if (method !== "GET" && method !== "HEAD") return notAllowed(method);
  let body: string;
  try {
    body = JSON.stringify(await merged());
  } catch (error) {
    return errorAnswer(error);
  }
  const tag = `"${toBase64Url(sha256(utf8ToBytes(body)).subarray(0, 16))}"`;
  const headers = { ...HEADERS, ETag: tag };
  const known = tags?.split(",").map((each) => each.trim().replace(/^W\//, "")) ?? [];
  if (known.includes(tag) || known.includes("*")) return { status: 304, headers, body: "" };
  const whole = { ...headers, "Content-Type": "application/json; charset=utf-8" };
  return { status: 200, headers: whole, body: method === "HEAD" ? "" : body };
}

function notAllowed(method: string | undefined): Answer {
  const headers = { ...CORS_HEADERS, Allow: "GET, HEAD, OPTIONS", "Cache-Control": "no-store" };
  if (method !== "OPTIONS") return { status: 405, headers, body: "" };
  const allowed = { "Access-Control-Allow-Methods": "GET, HEAD", "Access-Control-Allow-Headers": "If-None-Match" };
  return { status: 204, headers: { ...headers, ...allowed }, body: "" };
}
