/** The errors that commands throw themselves, each with what the user does next. */

/** Names an argument, setting or file that is missing or wrong. Nothing was sent. */
export class UsageError extends Error {
  readonly remedy: string;

  /** @param remedy what the user does next, one or two sentences */
  constructor(message: string, remedy: string) {
    super(message);
    this.name = "UsageError";
    this.remedy = remedy;
  }
}

/** Returns whether this is what fetch throws for a server that cannot be reached. */
export function isUnreached(error: unknown): error is TypeError {
  return error instanceof TypeError && error.cause !== undefined;
}

/** Names what failed after the command began its work. */
export class CommandFailed extends Error {
  readonly remedy: string;

  /** @param remedy what the user does next, one or two sentences */
  constructor(message: string, remedy: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "CommandFailed";
    this.remedy = remedy;
  }
}
