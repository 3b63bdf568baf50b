/**
 * A whole Facilitator as a process of its own, which its parent kills; or which kills itself right after the step that
 * KILL_AFTER names ("signed", or "signed 2" for the second time). Reports its address to its parent.
 */
import pino from "pino";
import { startFacilitator } from "../../../../facilitator/src/app/start";
import { loadConfig } from "../../../../facilitator/src/config";

const [last, times = "1"] = (process.env.KILL_AFTER ?? "").split(" ");
let seen = 0;
const onStep = (step: string): void => {
  if (step === last && ++seen === Number(times)) process.kill(process.pid, "SIGKILL");
};

startFacilitator(loadConfig(process.env), { logger: pino({ level: process.env.LOG_LEVEL ?? "silent" }), onStep }).then(
  ({ url }) => process.send?.({ url }),
  (error) => {
    process.stderr.write(`${error instanceof Error ? error.stack : error}\n`);
    process.exit(1);
  },
);
