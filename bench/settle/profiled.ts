/** Loaded before the Facilitator: SIGUSR2 starts a CPU profile; the next one ends it and writes it to PROFILE_FILE. */
import { writeFileSync } from "node:fs";
import { Session } from "node:inspector";

let session: Session | undefined;
process.on("SIGUSR2", () => {
  if (session) {
    const running = session;
    session = undefined;
    running.post("Profiler.stop", (_error, result) => {
      writeFileSync(process.env.PROFILE_FILE ?? "profile.cpuprofile", JSON.stringify(result?.profile));
      running.disconnect();
    });
    return;
  }
  session = new Session();
  session.connect();
  session.post("Profiler.enable");
  session.post("Profiler.setSamplingInterval", { interval: 500 });
  session.post("Profiler.start");
});
