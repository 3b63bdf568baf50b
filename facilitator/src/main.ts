/**
 * The program: runs its commands with settings from the environment. An application that embeds the service imports
 * `startFacilitator` from here.
 */
import { runCommands } from "./cli";

export type { FacilitatorEffects, RunningFacilitator } from "./app/start";
export { startFacilitator } from "./app/start";

if (require.main === module) void runCommands(process.argv);
