/** Creates the errors of bodies that cannot be bound to a quote, each with its remedy. None of them asks for money. */
import { ConfigError, InvalidRequest, isTurnpikeError, TurnpikeError } from "../../protocol";

/** `reason` of a ConfigError that the gate itself answers, in every framework alike. */
const DROPPED = "body_dropped";

const UNBOUND = "body_unbound";

/** For a body that another middleware reads first. @param remedy what to change in this framework */
export const bodyDropped = (remedy: string, reader = "another middleware"): ConfigError =>
  new ConfigError(`bind: "body" needs the body's bytes, and ${reader} reads them before the gate: ${remedy}`, {
    reason: DROPPED,
  });

/** For a callback that reads the body on a route that binds none: its payment would buy any other body too. */
export const bodyUnbound = (callback: string): ConfigError =>
  new ConfigError(
    `${callback} reads the request's body: set bind: "body", so that the quote and the handler get it too`,
    {
      reason: UNBOUND,
    },
  );

export const bodyTooLarge = (maxBytes: number): TurnpikeError =>
  new TurnpikeError("PayloadTooLarge", `body: must be at most ${maxBytes} bytes (maxBodyBytes)`, {
    details: { maxBytes },
  });

/** The price reads JSON and forms as UTF-8; a parser that follows another charset would read another body. */
export const charsetUnsupported = (charset: string): TurnpikeError =>
  new TurnpikeError("UnsupportedMediaType", `content-type: charset ${charset} is not supported here; send utf-8`);

export const bodyCutOff = (cause?: unknown): InvalidRequest =>
  new InvalidRequest("body: the connection closed before the body ended", cause === undefined ? {} : { cause });

/** Returns whether an error is about how the gate is mounted: the provider must change the application. */
export function isBodyFault(error: unknown): error is ConfigError {
  return isTurnpikeError(error) && (error.reason === DROPPED || error.reason === UNBOUND);
}

const warned = new WeakSet<object>();

/** Warns the operator once for each route; clients get the same message with every request. */
export function warnOfBodyFault(route: object, fault: ConfigError): void {
  if (warned.has(route)) return;
  warned.add(route);
  process.emitWarning(fault);
}
