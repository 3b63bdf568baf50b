/** compose.yaml as processes: each service's command in exactly the environment that compose would give it. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { parse } from "yaml";

export interface ComposeService {
  readonly build?: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly env_file?: string;
  readonly secrets?: readonly string[];
}

export interface ComposedService {
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export interface Composition {
  readonly names: readonly string[];
  service(name: string): ComposedService;
  /** the shell command of the image's health check */
  readonly healthcheck: string;
  remove(): void;
}

export interface CompositionOptions {
  /** lines of settings.env.example that an operator fills in, as docs/operators/run.md says */
  readonly filledIn: Readonly<Record<string, string>>;
  /** what the same page appends to the file */
  readonly appended: Readonly<Record<string, string>>;
  /** by name, as `file:` of `secrets` would hold it */
  readonly secrets: Readonly<Record<string, string>>;
}

const instructions = (name: string): string[] =>
  readFileSync("Dockerfile", "utf8")
    .replaceAll(/\\\n/g, " ")
    .split(/^FROM /m)
    .at(-1)
    ?.split("\n")
    .flatMap((line) => (line.trim().startsWith(`${name} `) ? [line.trim().slice(name.length + 1)] : [])) ?? [];

/** As compose reads an env_file: quotes around a value are not part of it, lines of comment are none. */
function readEnvFile(text: string): Record<string, string> {
  const env: Record<string, string> = {};
  for (const line of text.split("\n")) {
    const [, name, value = ""] = /^([A-Z_0-9]+)=(.*)$/.exec(line) ?? [];
    if (name === undefined) continue;
    env[name] = /^'.*'$/.test(value) ? value.slice(1, -1) : value.replace(/\s+#.*$/, "").trim();
  }
  return env;
}

export function compose({ filledIn, appended, secrets }: CompositionOptions): Composition {
  const { services } = parse(readFileSync("compose.yaml", "utf8"), { merge: true }) as {
    services: Record<string, ComposeService>;
  };
  const home = mkdtempSync(path.join(tmpdir(), "turnpike-compose-"));
  mkdirSync(path.join(home, "secrets"), { mode: 0o700 });
  for (const [name, text] of Object.entries(secrets))
    writeFileSync(path.join(home, "secrets", name), `${text}\n`, { mode: 0o600 });
  const imageEnv = Object.fromEntries(
    instructions("ENV").flatMap((line) => line.split(/\s+/).map((pair) => pair.split("=") as [string, string])),
  );
  const command = JSON.parse(instructions("CMD")[0] ?? "[]") as string[];
  const ours = Object.entries(services).filter(([, { build }]) => build !== undefined);

  function settingsOf(file: string): Record<string, string> {
    let text = readFileSync(`${file}.example`, "utf8");
    for (const [name, value] of Object.entries(filledIn)) {
      const line = new RegExp(`^${name}=$`, "m");
      if (!line.test(text)) throw new Error(`${name} is no line to fill in`);
      text = text.replace(line, () => `${name}=${value}`);
    }
    for (const [name, value] of Object.entries(appended)) text += `${name}=${value}\n`;
    return readEnvFile(text);
  }

  return {
    names: ours.map(([name]) => name),
    service(name) {
      const service = services[name];
      if (!service) throw new Error(`compose.yaml has no service ${name}`);
      const environment = Object.entries(service.environment ?? {}).map(([variable, value]) => [
        variable,
        // The one thing that differs: where compose mounts the secrets that the service is given.
        value.replace(/\/run\/secrets\/(\w+)/, (_, secret: string) => {
          if (!service.secrets?.includes(secret)) throw new Error(`${name} is not given the secret ${secret}`);
          return path.join(home, "secrets", secret);
        }),
      ]);
      const file = service.env_file;
      return {
        args: service.command ?? command,
        env: { ...imageEnv, ...(file === undefined ? {} : settingsOf(file)), ...Object.fromEntries(environment) },
      };
    },
    healthcheck: instructions("HEALTHCHECK")[0]?.replace(/^.*?\bCMD\s+/, "") ?? "",
    remove: () => rmSync(home, { recursive: true, force: true }),
  };
}
