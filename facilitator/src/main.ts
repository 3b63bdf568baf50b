/** The program: its commands and their settings, which come from the environment. Whoever embeds the service starts it here. */
import { runCommands } from "./commands";

export { type FacilitatorEffects, type RunningFacilitator, startFacilitator } from "./start";

if (require.main === module) void runCommands(process.argv);
