/** Serves a provider's document, by one handler that every framework mounts: it answers in the form that it was asked in. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type JsonObject, sha256, toBase64Url, utf8ToBytes } from "../../protocol";
import { type Answer, CORS_HEADERS, errorAnswer } from "../core/answer";
import { mergedDocument, type OpenApiDocument } from "./document";
import { type ListedRoute, paymentInfoOf } from "./payment-info";

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

/** A document as it is sent. */
interface WrittenDocument {
  /** of every route, as JSON: with the same ones the document is the same */
  readonly prices: string;
  readonly body: string;
  readonly tag: string;
}

/** Returns what writes the document, again only once a price has changed or a route was added: anybody may ask for it. */
function writerOf({ document, known }: ServedDocument): () => Promise<WrittenDocument> {
  let last: WrittenDocument | undefined;
  return async () => {
    const { routes, publicUrl } = known();
    const priced = await Promise.all(routes.map(async (route) => ({ route, info: await paymentInfoOf(route) })));
    const prices = JSON.stringify(priced.map(({ info }) => info ?? null));
    if (last?.prices === prices) return last;
    const body = JSON.stringify(mergedDocument({ document, routes: priced, publicUrl }));
    last = { prices, body, tag: `"${toBase64Url(sha256(utf8ToBytes(body)).subarray(0, 16))}"` };
    return last;
  };
}

/** Creates the handler. */
export function openApiHandler(served: ServedDocument): OpenApiHandler {
  const write = writerOf(served);
  const handler = async (first: unknown, second?: unknown): Promise<unknown> => {
    const request = first as { headers?: unknown; req?: { raw?: unknown }; raw?: unknown };
    const fetched = isFetched(request) ? request : isFetched(request.req?.raw) ? request.req.raw : undefined;
    if (fetched) {
      const { status, headers, body } = await answerTo(fetched.method, fetched.headers.get("if-none-match"), write);
      return new Response(body === "" ? null : (body as string), { status, headers });
    }
    const reply = isReply(second) ? second : undefined;
    const message = (reply ? request.raw : first) as IncomingMessage;
    const answer = await answerTo(message.method, message.headers["if-none-match"], write);
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
    document: async () => JSON.parse((await write()).body) as OpenApiDocument,
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
  write: () => Promise<WrittenDocument>,
): Promise<Answer> {
  if (method !== "GET" && method !== "HEAD") return notAllowed(method);
  let written: WrittenDocument;
  try {
    written = await write();
  } catch (error) {
    return errorAnswer(error);
  }
  const { body, tag } = written;
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
