/** Finds a running sandbox by its published addresses. Loads none of its parts, so that a command answers at once. */
import { existsSync, readFileSync, rmSync } from "node:fs";
import { envFile, stateFile } from "./folder-lock";
import type { SandboxState } from "./state";

/** @throws Error with the remedy when no sandbox answers for the folder */
export async function readState(folder: string): Promise<SandboxState> {
  const file = stateFile(folder);
  if (!existsSync(file))
    throw new Error(`No sandbox is ready in ${folder}. Start one with npm start, or name its folder with --folder.`);
  const state = JSON.parse(readFileSync(file, "utf8")) as SandboxState;
  try {
    await fetch(`${state.facilitatorUrl}/livez`);
  } catch {
    throw new Error(
      `${file} is left from a sandbox that was killed: ${state.facilitatorUrl} does not answer. Run npm start.`,
    );
  }
  return state;
}

/** A state that names nothing running would mislead. */
export function removeState(folder: string): void {
  for (const file of [stateFile(folder), envFile(folder)]) rmSync(file, { force: true });
}
