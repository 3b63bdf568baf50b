/** Where a running sandbox tells what it is. Loads none of its parts, so that a command answers at once. */
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import type { SandboxState } from "./state";

export const SANDBOX_FOLDER = path.resolve(
  process.env.TURNPIKE_SANDBOX_FOLDER || path.resolve(__dirname, "../../.sandbox"),
);
export const STATE_FILE = path.join(SANDBOX_FOLDER, "state.json");

/** @throws Error when no sandbox runs */
export function readState(): SandboxState {
  if (!existsSync(STATE_FILE)) throw new Error("No sandbox is running here: start one with `npm start`.");
  return JSON.parse(readFileSync(STATE_FILE, "utf8")) as SandboxState;
}
