import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { expect } from "chai";
import { parse } from "yaml";
import { SETTINGS } from "../../facilitator/src/config";
import { ROLES } from "../../facilitator/src/config/roles";

const read = (file: string): string => readFileSync(file, "utf8");

interface Service {
  readonly image?: string;
  readonly build?: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly env_file?: string;
  readonly secrets?: readonly string[];
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly stop_grace_period?: string;
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
}
interface Compose {
  readonly services: Readonly<Record<string, Service>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
  readonly volumes: Readonly<Record<string, unknown>>;
}

interface Instruction {
  readonly name: string;
  readonly words: readonly string[];
}

/** By stage, with continued lines joined and comments left out. */
function stagesOf(dockerfile: string): Instruction[][] {
  const lines = dockerfile
    .split("\n")
    .filter((line) => !/^\s*#/.test(line))
    .join("\n")
    .replaceAll(/\\\n/g, " ")
    .split("\n")
    .filter((line) => line.trim() !== "");
  const stages: Instruction[][] = [];
  for (const line of lines) {
    const [name = "", ...words] = line.trim().split(/\s+/);
    if (name === "FROM") stages.push([]);
    stages.at(-1)?.push({ name, words });
  }
  return stages;
}

describe("agreement > image", () => {
  const compose = parse(read("compose.yaml"), { merge: true }) as Compose;
  const ours = Object.entries(compose.services).filter(([, { build }]) => build !== undefined);
  const [build = [], image = []] = stagesOf(read("Dockerfile"));
  const named = (stage: readonly Instruction[], name: string) => stage.filter((one) => one.name === name);

  it("every part of compose.yaml that is named exists: services, secrets, volumes, the settings' example", () => {
    expect(ours.map(([name]) => name)).to.have.members(["migrate", "api", "relayer", "worker"]);
    for (const [name, service] of Object.entries(compose.services)) {
      for (const other of Object.keys(service.depends_on ?? {})) expect(compose.services, name).to.have.property(other);
      for (const secret of service.secrets ?? []) expect(compose.secrets, name).to.have.property(secret);
      for (const volume of service.volumes ?? [])
        expect(compose.volumes, name).to.have.property(volume.split(":")[0] ?? "");
      for (const file of JSON.stringify(service.environment ?? {}).matchAll(/\/run\/secrets\/(\w+)/g)) {
        expect(service.secrets, `${name} is given what it reads`).to.include(file[1]);
      }
    }
    expect(existsSync(`${ours[0]?.[1].env_file}.example`)).to.equal(true);
  });

  it("the processes of compose.yaml do everything together, with settings that there are", () => {
    const settings = new Set(Object.values(SETTINGS).map(({ env }) => env));
    const roles = new Set<string>();
    for (const [name, { environment = {}, stop_grace_period: grace = "" }] of ours) {
      for (const variable of Object.keys(environment)) expect([...settings], name).to.include(variable);
      for (const role of environment.ROLES?.split(",") ?? []) roles.add(role);
      expect(Number.parseInt(grace, 10), `${name} may finish what it does`).to.be.greaterThan(10);
      // Loopback: public access goes through a proxy.
      for (const port of compose.services[name]?.ports ?? []) expect(port).to.match(/^127\.0\.0\.1:/);
    }
    expect([...roles].sort()).to.deep.equal([...ROLES].sort());
    const keys = Object.entries(compose.services).filter(([, { secrets }]) => secrets?.includes("relayer_key"));
    expect(
      keys.map(([name]) => name),
      "one alone holds the keys that pay",
    ).to.deep.equal(["relayer"]);
  });

  it("no secret of compose.yaml, nor the settings, can come into the image", () => {
    const ignored = read(".dockerignore")
      .split("\n")
      .filter((line) => line && !line.startsWith("#"));
    for (const { file } of Object.values(compose.secrets)) {
      expect(ignored).to.include(path.normalize(file).split("/")[0]);
    }
    for (const [, { env_file: file }] of ours) expect(ignored).to.include(file);
    for (const one of [...build, ...image])
      expect(one.words.join(" ")).not.to.match(/RELAYER_KEYS|PROOF_KEY|DATABASE_URL/);
  });

  it("the Dockerfile copies what is there, from stages and folders that there are", () => {
    expect(named(build, "FROM")[0]?.words.slice(1)).to.deep.equal(["AS", "build"]);
    const made = ["node_modules", "facilitator/node_modules", "facilitator/dist", "facilitator/dashboard/dist"];
    for (const { words } of named(build, "COPY")) {
      for (const source of words.slice(0, -1)) expect(existsSync(source), source).to.equal(true);
    }
    for (const { words } of named(image, "COPY")) {
      const [from, source = ""] = words;
      expect(from).to.equal("--from=build");
      const inside = source.replace(/^\/app\//, "");
      expect(made.includes(inside) || existsSync(inside), source).to.equal(true);
    }
    const [entry] = named(image, "ENTRYPOINT");
    const program = JSON.parse(entry?.words.join(" ") ?? "[]") as string[];
    expect(program).to.deep.equal(["node", "--max-semi-space-size=64", "facilitator/dist/program/facilitator.cjs"]);
    expect(read("facilitator/tools/build.cjs"), "and that is what is built").to.contain("dist/program/facilitator.cjs");
    expect(named(image, "USER")[0]?.words, "not as root").to.deep.equal(["node"]);
    for (const [name, service] of ours) {
      expect(service, name).to.deep.include({ read_only: true, cap_drop: ["ALL"] });
    }
    const versions = [...build, ...image].filter(({ name }) => name === "FROM").map(({ words }) => words[0] ?? "");
    expect(new Set(versions).size, "one Node for building and running").to.equal(1);
    const wanted = (JSON.parse(read("package.json")) as { engines: { node: string } }).engines.node;
    expect(wanted.replace(">=", "").split(".")[0]).to.equal(/^node:(\d+)\./.exec(versions[0] ?? "")?.[1]);
  });

  it("the image's health is asked where the program answers", () => {
    const [check] = named(image, "HEALTHCHECK");
    expect(check?.words.join(" ")).to.contain("/healthz");
    expect(named(image, "EXPOSE")[0]?.words[0]).to.equal(SETTINGS.port.fallback);
    expect(compose.services.api?.ports).to.deep.equal([
      `127.0.0.1:${SETTINGS.port.fallback}:${SETTINGS.port.fallback}`,
    ]);
  });
});
