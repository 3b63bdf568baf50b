/** The program: its commands and their settings, which come from the environment. Whoever embeds the service starts it here. */
import { runCommands } from "./cli";

export type { FacilitatorEffects, RunningFacilitator } from "./app/start";
export { startFacilitator } from "./app/start";

if (require.main === module) void runCommands(process.argv);
