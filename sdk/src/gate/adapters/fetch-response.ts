/** Settles a fetch-style handler's response and adds the paid headers before its first byte leaves. */
import { type Answer, CORS_HEADERS, type Decision, errorAnswer, privateCacheControl, varyWith } from "../core/answer";
import type { Gate } from "../core/gate";
import { isRefusedCharge, type RequestScope, settleScope } from "../core/request-scope";
import type { KeptAnswer } from "../replay/kept-answer";
import { recordResponse } from "../replay/record-fetch";

const WITHOUT_BODY: ReadonlySet<number> = new Set([204, 205, 304]);

export function responseOf({ status, headers, body }: Answer): Response {
  return new Response(WITHOUT_BODY.has(status) ? null : (body as BodyInit), { status, headers });
}

export interface ServedResponse {
  readonly gate: Gate;
  readonly scope: RequestScope;
  readonly decision: Extract<Decision, { kind: "allow" }>;
  readonly response: Response;
  /** the handler threw; the framework made `response` of it */
  readonly threw: boolean;
}

/** @returns what to send: the handler's response with the paid headers, or the refusal of its charge */
export async function settleResponse({ gate, scope, decision, response, threw }: ServedResponse): Promise<Response> {
  if (decision.payment.kind === "free") return response;
  if (isRefusedCharge(scope, threw ? 500 : response.status)) {
    const answer = await gate.answerOfRefusedCharge(scope);
    await settleScope(scope, answer.status >= 500 ? "release" : "use");
    return responseOf(answer);
  }
  const { keeper } = scope;
  try {
    const how = threw || response.status >= 500 ? "release" : "use";
    if (how === "use" && keeper) {
      const { maxBytes } = keeper;
      const settle = async (answer: KeptAnswer | undefined) => settleScope(scope, "use", answer);
      return await recordResponse(withPaidHeaders(response, decision.headers, gate.cors), { maxBytes, settle });
    }
    const settling = settleScope(scope, how);
    if (settling) await settling;
  } catch (error) {
    return responseOf(errorAnswer(error));
  }
  return withPaidHeaders(response, decision.headers, gate.cors);
}

function withPaidHeaders(response: Response, extra: Readonly<Record<string, string>>, cors: boolean): Response {
  try {
    setPaidHeaders(response.headers, extra, cors);
    return response;
  } catch {
    // Headers that came over the network are immutable: copy the response.
    const headers = new Headers(response.headers);
    setPaidHeaders(headers, extra, cors);
    return new Response(response.body, { status: response.status, statusText: response.statusText, headers });
  }
}

function setPaidHeaders(headers: Headers, extra: Readonly<Record<string, string>>, cors: boolean): void {
  headers.set("Cache-Control", privateCacheControl(headers.get("Cache-Control") ?? undefined));
  headers.set("Vary", varyWith(headers.get("Vary") ?? undefined));
  for (const [name, value] of Object.entries(extra)) headers.set(name, value);
  if (cors) for (const [name, value] of Object.entries(CORS_HEADERS)) if (!headers.has(name)) headers.set(name, value);
}
