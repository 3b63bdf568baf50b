/** The body of every error of the Facilitator: RFC 9457 problem details with a stable code, both ways. */
import * as z from "zod";
import { ERRORS, type ErrorCode, isErrorCode, isTurnpikeError, TurnpikeError } from "../protocol";
import { fieldsOf, wrongKind } from "../protocol/arguments";

/** The content type of an error body. */
export const PROBLEM_CONTENT_TYPE = "application/problem+json";

export const problemSchema = z.object({
  type: z.string().max(256),
  title: z.string().max(512),
  status: z.number().int().min(400).max(599),
  /** one of the codes of the error table */
  code: z.string().max(64),
  /** what happened, for people */
  message: z.string().max(2_048),
  /** whether the same request can succeed later without anybody changing anything */
  retryable: z.boolean(),
  /** seconds */
  retryAfter: z.number().int().nonnegative().optional(),
  /** what resolves it */
  nextAction: z.string().max(1_024).optional(),
  /** why within the code, e.g. "already_used" */
  reason: z.string().max(128).optional(),
  details: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])).optional(),
  requestId: z.string().max(64).optional(),
});

export type Problem = z.output<typeof problemSchema>;

/** An error over HTTP, by RFC 9457. */
export function problemOf(error: TurnpikeError, requestId?: string): Problem {
  if (!isTurnpikeError(error)) throw wrongKind(error, "error", "a TurnpikeError");
  return {
    type: `urn:turnpike:error:${error.code}`,
    title: ERRORS[error.code].cause,
    status: error.status,
    code: error.code,
    message: error.message,
    retryable: error.retryable,
    nextAction: error.remedy,
    ...(error.retryAfterSec === undefined ? {} : { retryAfter: error.retryAfterSec }),
    ...(error.reason === undefined ? {} : { reason: error.reason }),
    ...(Object.keys(error.details).length === 0 ? {} : { details: { ...error.details } }),
    ...(requestId === undefined ? {} : { requestId }),
  };
}

/** @returns undefined when the problem's code is not in this version's table */
export function errorOfProblem(problem: Problem): TurnpikeError | undefined {
  fieldsOf(problem, "problem");
  if (!isErrorCode(problem.code)) return undefined;
  const code: ErrorCode = problem.code;
  return new TurnpikeError(code, problem.message, {
    ...(problem.reason === undefined ? {} : { reason: problem.reason }),
    ...(problem.retryAfter === undefined ? {} : { retryAfterSec: problem.retryAfter }),
    ...(problem.details === undefined ? {} : { details: problem.details }),
  });
}
