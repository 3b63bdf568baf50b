/** `turnpike validate`: whether a server's 402 is well-formed for x402 version 1 and version 2. Pays nothing. */
import { Unavailable } from "../../protocol";
import { boundedText } from "../../protocol/bounded-text";
import { Deadline } from "../../protocol/waiting";
import type { Command } from "../command";
import { UsageError } from "../command-errors";
import { EXIT_CODES } from "../exit-codes";
import { safeLine } from "../text";
import { checkAnswer, type Report } from "../validate/check";
import type { Problem } from "../validate/problem";
import { REQUEST_FLAGS, readRequest, URL_WORD } from "./request";

const MAX_BODY_BYTES = 65_536;

const TIMEOUT_MS = 30_000;

/** The command `validate`. */
export const validateCommand: Command = {
  name: "validate",
  summary: "check that a server's 402 is well-formed for x402 version 1 and version 2; pays nothing",
  words: [URL_WORD],
  flags: { ...REQUEST_FLAGS, require: { value: "VERSIONS", about: "versions that must be there: v1, v2 or v1,v2" } },
  examples: [
    "npx turnpike validate https://api.example/report",
    "npx turnpike validate http://localhost:3000/quote --require v1,v2",
  ],
  async run(context) {
    const { args, io, output } = context;
    const { url, init } = await readRequest(context);
    const required = versionsOf(args.value("require"));
    const deadline = new Deadline(TIMEOUT_MS, io.signal);
    let report: Report;
    try {
      const response = await io.fetch(url, { ...init, redirect: "manual", signal: deadline.signal });
      const body = await boundedText(response, MAX_BODY_BYTES);
      const { status, headers } = response;
      report = checkAnswer({ requested: url, status, headers, body }, required);
    } catch (error) {
      if (!deadline.isOver) throw error;
      throw new Unavailable(`The server did not answer within ${TIMEOUT_MS / 1_000} s.`, { cause: error });
    } finally {
      deadline.end();
    }
    const isFine = report.problems.every(({ level }) => level === "warning");
    output.result({ url, method: init.method, wellFormed: isFine, ...report }, linesOf(url, init.method, report));
    return isFine ? EXIT_CODES.done.code : EXIT_CODES.failed.code;
  },
};

function versionsOf(text: string | undefined): ("v1" | "v2")[] {
  const names = text?.split(",").map((name) => name.trim()) ?? [];
  const isVersion = (name: string): name is "v1" | "v2" => name === "v1" || name === "v2";
  const versions = names.filter(isVersion);
  if (versions.length === names.length) return versions;
  throw new UsageError("--require names an unknown version.", "Write v1, v2 or v1,v2.");
}

function linesOf(url: string, method: string, { status, versions, problems }: Report): string[] {
  const states = Object.entries(versions).map(([version, state]) => `${version} ${state}`);
  return [`${method} ${safeLine(url)}: HTTP ${status}, ${states.join(", ")}`, ...problems.map(problemLine)];
}

function problemLine({ level, part, code, where, about }: Problem): string {
  return `${level}: ${part} ${code}${where === "" ? "" : ` at ${safeLine(where)}`}: ${about}`;
}
