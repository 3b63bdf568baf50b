/** What every error of the HTTP API looks like on the wire. */
import { expect } from "chai";
import { ERRORS, type ErrorCode } from "turnpike/protocol";

export async function expectProblem(
  response: Response,
  status: number,
  code: ErrorCode,
): Promise<Record<string, unknown>> {
  const body = (await response.json()) as Record<string, unknown>;
  expect(response.status, JSON.stringify(body)).to.equal(status);
  expect(body).to.include({
    code,
    status,
    retryable: ERRORS[code].retryable,
    requestId: response.headers.get("x-request-id"),
  });
  expect(body.message).to.be.a("string").with.length.greaterThan(5);
  expect(response.headers.get("access-control-allow-origin")).to.equal("*");
  return body;
}
