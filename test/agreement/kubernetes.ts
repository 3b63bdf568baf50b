import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect } from "chai";
import {
  createCompilerHost,
  createProgram,
  createSourceFile,
  flattenDiagnosticMessageText,
  getPreEmitDiagnostics,
  ModuleKind,
  ScriptTarget,
} from "typescript";
import { parse } from "yaml";
import { SETTINGS } from "../../facilitator/src/config";
import { ROLES } from "../../facilitator/src/config/roles";

interface Schema {
  validate(): void;
}

/** What the schema of the object's kind finds wrong, or null. */
function problemOf(item: { readonly apiVersion: string; readonly kind: string }): string | null {
  const kinds: Readonly<Record<string, new (item: object) => Schema>> = require(`kubernetes-models/${item.apiVersion}`);
  const Kind = kinds[item.kind];
  if (!Kind) return `${item.apiVersion} has no ${item.kind}`;
  try {
    new Kind(item).validate();
    return null;
  } catch (error) {
    return String(error);
  }
}

/** What the compiler says of the objects as values of their kinds' types: schemas allow unknown fields, types do not. */
function unknownFieldsOf(objects: readonly Item[]): string[] {
  const name = resolve("test/agreement/kubernetes-objects.ts");
  const text = objects
    .map(
      (item, i) => `import type { I${item.kind} as I${i} } from "kubernetes-models/${item.apiVersion}";
export const object${i}: I${i} = ${JSON.stringify(item)};`,
    )
    .join("\n");
  const options = { noEmit: true, strict: true, skipLibCheck: true, module: ModuleKind.NodeNext, types: [] };
  const host = createCompilerHost(options);
  const { getSourceFile, fileExists } = host;
  host.getSourceFile = (file, ...rest) =>
    resolve(file) === name ? createSourceFile(file, text, ScriptTarget.ES2022) : getSourceFile(file, ...rest);
  host.fileExists = (file) => resolve(file) === name || fileExists(file);
  const program = createProgram([name], options, host);
  return getPreEmitDiagnostics(program).map(({ messageText }) => flattenDiagnosticMessageText(messageText, " "));
}

interface Item {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec: { readonly template: { readonly spec: Pod } };
}

interface Pod {
  readonly securityContext: object;
  readonly terminationGracePeriodSeconds?: number;
  readonly containers: readonly [Container];
  readonly volumes?: readonly { readonly name: string; readonly secret: { readonly defaultMode: number } }[];
}

interface Container {
  readonly lifecycle?: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } };
  readonly args?: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly securityContext: object;
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
}

const { items } = parse(readFileSync("facilitator/kubernetes.yaml", "utf8")) as { items: readonly Item[] };
const pods = items.filter(({ kind }) => kind === "Deployment" || kind === "Job");
const podOf = ({ spec }: Item): Pod => spec.template.spec;
const containerOf = (item: Item): Container => podOf(item).containers[0];
const settingOf = (item: Item, variable: string): string | undefined =>
  containerOf(item).env.find(({ name }) => name === variable)?.value;

describe("agreement > Kubernetes", () => {
  it("has objects as Kubernetes's own schemas define them", () => {
    for (const item of items) expect(problemOf(item), item.metadata.name).to.equal(null);
    const wrong = { apiVersion: "apps/v1", kind: "Deployment", metadata: { name: "x" }, spec: { selectors: {} } };
    expect(problemOf(wrong), "a schema that refuses").to.include("selector");
  });

  it("has no field that Kubernetes does not know", function () {
    this.timeout(60_000);
    expect(unknownFieldsOf(items)).to.deep.equal([]);
    const misspelled = JSON.parse(JSON.stringify(items).replace('"replicas"', '"replicaz"'));
    expect(unknownFieldsOf(misspelled).join()).to.include("replicaz");
  });

  it("runs every role, and each key where its role is", () => {
    const deployed = items.filter(({ kind }) => kind === "Deployment");
    const roles = deployed.flatMap((item) => settingOf(item, "ROLES")?.split(",") ?? []);
    expect(new Set(roles)).to.deep.equal(new Set(ROLES));
    for (const [role, key] of [
      ["api", "PROOF_KEY"],
      ["relayer", "RELAYER_KEYS"],
    ] as const) {
      const holders = pods.filter((item) => settingOf(item, key) !== undefined);
      expect(
        holders.map((item) => settingOf(item, "ROLES")?.split(",")[0]),
        key,
      ).to.deep.equal([role]);
    }
  });

  it("sets nothing but settings, and reads its keys where they are mounted", () => {
    const known = new Set(Object.values(SETTINGS).map(({ env }) => env));
    for (const item of pods) {
      const { env, volumeMounts = [] } = containerOf(item);
      for (const { name, value } of env) {
        expect(known.has(name), name).to.equal(true);
        const file = /^file:(.*)\/\w+$/.exec(value)?.[1];
        if (file) expect(volumeMounts.map(({ mountPath }) => mountPath)).to.deep.equal([file]);
      }
      for (const { secret } of podOf(item).volumes ?? [])
        expect(secret.defaultMode, "for the pod's group").to.equal(0o440);
    }
    const settings = items.find(({ kind }) => kind === "ConfigMap")?.data ?? {};
    for (const name of Object.keys(settings)) expect(known.has(name), name).to.equal(true);
  });

  it("runs as no root, on a file system that it cannot write, and has time to stop", () => {
    for (const item of pods) {
      expect(podOf(item).securityContext).to.include({ runAsNonRoot: true });
      expect(containerOf(item).securityContext).to.deep.include({
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
      const composed = /stop_grace_period: (\d+)s/.exec(readFileSync("compose.yaml", "utf8"))?.[1];
      if (item.kind === "Deployment") expect(podOf(item).terminationGracePeriodSeconds).to.equal(Number(composed));
    }
  });

  it("gives proxies time to take a pod out before it stops, and the stop its own time after that", () => {
    const limitMs = /STOP_LIMIT_MS = ([\d_]+)/.exec(readFileSync("facilitator/src/cli/index.ts", "utf8"))?.[1];
    const stopSec = Number(limitMs?.replaceAll("_", "")) / 1_000;
    expect(stopSec).to.be.greaterThan(0);
    for (const item of items.filter(({ kind }) => kind === "Deployment")) {
      const [program, leaveSec] = containerOf(item).lifecycle?.preStop.exec.command ?? [];
      expect([program, Number(leaveSec) > 0], item.metadata.name).to.deep.equal(["sleep", true]);
      expect(podOf(item).terminationGracePeriodSeconds).to.be.greaterThan(Number(leaveSec) + stopSec);
    }
  });
});
