/** The built application of `test/interop/next`, which sells by the stock @x402/next: a process for each server. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import path from "node:path";
import { freePort } from "../../support/chain";
import { closeServer, listen } from "../../support/gate";
import { until } from "../../support/until";
import type { Served } from "./gates";
import { CAIP2 } from "./world";

/** What the application is started with. */
export interface NextOptions {
  /** `withX402` settles after the route, `proxy` before it: that is `paymentProxy` */
  readonly form: "withX402" | "proxy";
  readonly facilitator: string;
  /** of the package, as JSON */
  readonly routes: object;
  /** Returns what a route answers. It is asked each time that a route runs. */
  answer(path: string): Promise<{ readonly status: number; readonly body: string }>;
}

const FOLDER = path.resolve(__dirname, "../next");

/** Starts the application. @throws Error with what it printed, where it ends instead */
export async function startNext({ form, facilitator, routes, answer }: NextOptions): Promise<Served> {
  let runs = 0;
  const answers = createServer(async (request, response) => {
    runs++;
    const { status, body } = await answer(request.url ?? "");
    response.writeHead(status).end(body);
  });
  const port = await freePort();
  const env = {
    ...process.env,
    NODE_ENV: "production" as const,
    NEXT_TELEMETRY_DISABLED: "1",
    ANSWERS_URL: await listen(answers),
    FACILITATOR_URL: facilitator,
    FORM: form,
    NETWORK: CAIP2,
    ROUTES: JSON.stringify(routes),
  };
  const bin = path.join(FOLDER, "node_modules/next/dist/bin/next");
  const next = spawn(process.execPath, [bin, "start", "-H", "127.0.0.1", "-p", String(port)], {
    cwd: FOLDER,
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  for (const stream of [next.stdout, next.stderr]) stream.on("data", (chunk) => (output += String(chunk)));
  // Next.js writes every loopback host as localhost, also in the resource of a 402.
  const url = `http://localhost:${port}`;
  await until(async () => {
    if (next.exitCode !== null) throw new Error(`The Next.js application ended: ${output}`);
    return fetch(url).catch(() => undefined);
  }, "the Next.js application answers");
  return {
    url,
    runs: () => runs,
    async stop() {
      const isOver = once(next, "exit");
      next.kill("SIGTERM");
      await isOver;
      await closeServer(answers);
    },
  };
}
