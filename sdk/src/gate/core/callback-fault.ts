/** Reports what a provider's own function threw to the provider, and keeps it from the client. */
import { TurnpikeError } from "../../protocol";

const LOG_EVERY_MS = 60_000;

const loggedAtMs = new Map<string, number>();

/**
 * Logs the error, those of one option and one place in the code once a minute at most.
 * @param option as the provider wrote it, such as `free`
 * @returns what the client gets, without the error's text
 */
export function callbackFault(option: string, message: string, cause: unknown): TurnpikeError {
  const nowMs = performance.now();
  const place = `${option} ${placeOf(cause)}`;
  if (nowMs - (loggedAtMs.get(place) ?? Number.NEGATIVE_INFINITY) >= LOG_EVERY_MS) {
    loggedAtMs.set(place, nowMs);
    const [thrown, detail] = cause instanceof Error ? [`${cause.name}: `, withoutSecrets(cause.stack ?? "")] : ["", ""];
    process.emitWarning(`${option} failed, so its request is answered 500: ${thrown}${lineOf(cause)}`, {
      code: "TurnpikeCallback",
      detail,
    });
  }
  return new TurnpikeError("Internal", message, { cause });
}

/** The frame that threw. The message before the frames is left out: a request may have written it. */
function placeOf(cause: unknown): string {
  if (!(cause instanceof Error)) return "";
  const { stack = "", message } = cause;
  const at = stack.indexOf(message);
  return at < 0 ? "" : (/^ +at .*/m.exec(stack.slice(at + message.length))?.[0] ?? "");
}

/** A callback may put into its error whatever it has read: ids and keys are as long as that. */
const withoutSecrets = (text: string): string => text.replace(/(?:0x)?[0-9a-f]{64,}/gi, "<hidden>");

/** One line with the causes, without ids and keys. */
export function lineOf(error: unknown): string {
  const messages: string[] = [];
  for (let each = error; each !== undefined && messages.length < MAX_CAUSES; each = (each as Error | null)?.cause) {
    messages.push(each instanceof Error ? each.message : String(each));
  }
  return withoutSecrets(messages.join(" ")).replace(/\s+/g, " ").slice(0, MAX_LINE_CHARS);
}

const MAX_CAUSES = 4;

const MAX_LINE_CHARS = 500;
