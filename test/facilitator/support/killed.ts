/** A Facilitator process that is asked for one payment and kills itself right after the step that KILL_AFTER names. */
import pino from "pino";
import { signedPaymentSchema } from "turnpike/protocol";
import { loadConfig } from "../../../facilitator/src/config";
import { startCore } from "../../../facilitator/src/core";

async function main(): Promise<void> {
  const onStep = (step: string): void => {
    if (step === process.env.KILL_AFTER) process.kill(process.pid, "SIGKILL");
  };
  const core = await startCore(loadConfig(process.env), { log: pino({ level: "silent" }), onStep });
  await core.payments.authorize(signedPaymentSchema.parse(JSON.parse(process.env.SIGNED_PAYMENT ?? "")));
  await core.stop();
}

main().then(
  () => process.exit(0),
  (error) => {
    process.stderr.write(String(error));
    process.exit(1);
  },
);
