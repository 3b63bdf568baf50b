/** Hardhat's tasks of this project. The work is in the scripts they name, loaded only when a task runs. */
import { extendEnvironment } from "hardhat/config";
import { HardhatPluginError } from "hardhat/plugins";
import { missingFor } from "./networks";

extendEnvironment((hre) => {
  const missing = missingFor(hre.network.name, process.env);
  if (missing) throw new HardhatPluginError("turnpike", missing);
});
