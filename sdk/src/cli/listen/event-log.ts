/** Reads a provider's event log at the Facilitator, a page at a time, and waits where there is nothing new. */
import type { FacilitatorClient, FacilitatorEvent } from "../../facilitator";
import { isTurnpikeError } from "../../protocol";
import type { CliIo } from "../io";
import type { Output } from "../output";

const PAGE = 200;

const POLL_MS = 1_000;

/** How long to wait while the Facilitator cannot be reached, where it names no time. */
const OUTAGE_MS = 5_000;

/** One page of the log. */
export interface EventPage {
  readonly events: readonly FacilitatorEvent[];
  readonly next: string;
}

/** Returns one page. @throws the Facilitator's refusal, such as InvalidApiKey; Unavailable */
async function pageAfter(
  client: FacilitatorClient,
  cursor: string,
  { signal, limit = PAGE }: { readonly signal: AbortSignal; readonly limit?: number },
): Promise<EventPage> {
  const found = await client.events({ cursor, limit, signal });
  if (found.kind === "refused") throw found.error;
  return found.value;
}

/** Returns the cursor after the newest event. The API has no such question, so this reads the log to its end. */
export async function endOfLog(client: FacilitatorClient, signal: AbortSignal): Promise<string> {
  let cursor = "0";
  for (;;) {
    const { events, next } = await pageAfter(client, cursor, { signal });
    cursor = next;
    if (events.length < PAGE) return cursor;
  }
}

/**
 * Yields pages with events for as long as the signal does not abort. An outage is reported, and waited for.
 * @param effects `limit` returns how many events are wanted, before each page is read
 */
export async function* pagesAfter(
  client: FacilitatorClient,
  start: string,
  { io, output, limit }: { readonly io: CliIo; readonly output: Output; readonly limit: () => number },
): AsyncGenerator<EventPage> {
  let cursor = start;
  while (!io.signal.aborted) {
    let page: EventPage | undefined;
    const size = Math.min(PAGE, limit());
    let waitMs = POLL_MS;
    try {
      page = await pageAfter(client, cursor, { signal: io.signal, limit: size });
    } catch (error) {
      if (io.signal.aborted) return;
      if (!isTurnpikeError(error) || error.code !== "Unavailable") throw error;
      waitMs = error.retryAfterSec === undefined ? OUTAGE_MS : error.retryAfterSec * 1_000;
      output.note(`${error.message} Trying again in ${waitMs / 1_000} s.`);
    }
    if (page && page.events.length > 0) {
      yield page;
      cursor = page.next;
      if (page.events.length === size) continue;
    }
    await io.sleep(waitMs, io.signal).catch(() => undefined);
  }
}
