/** What every request carries with it through the handlers. */
import type { TurnpikeError } from "turnpike/protocol";

export interface RequestScope {
  Variables: {
    requestId: string;
    /** the path's pattern, for logs and metrics: never the path itself with what a client put there */
    route: string;
    failure: TurnpikeError | undefined;
    /** logs that an answer broke off that was being sent */
    brokeOff: ((error: unknown) => void) | undefined;
  };
}
