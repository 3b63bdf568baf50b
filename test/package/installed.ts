import { readdirSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { expect } from "chai";
import { bundle } from "./support/bundle";
import { emptyProject, type Project } from "./support/packed";

const TSC = resolve(__dirname, "../../node_modules/typescript/bin/tsc");

describe("the package in an empty project", function () {
  this.timeout(240_000);
  let project: Project;
  before(async () => {
    project = await emptyProject();
  });
  after(() => project?.remove());

  const entryPoints = () =>
    Object.keys(project.manifest.exports)
      .filter((entry) => entry !== "./package.json")
      .map((entry) => entry.replace(/^\./, "turnpike"));

  it("holds what it is made of and nothing else: no source, no test, no secret", () => {
    const strange = project.files.filter(
      (file) =>
        !/^(dist\/(?!sandbox\/).+\.(m?js|d\.m?ts)|package\.json|README\.md|AGENTS\.md|LICENSE)$/.test(file) &&
        !/^dist\/sandbox\/(scripts\/sandbox\/(program\.js|with-parent\.cjs)|LICENSES\.txt)$/.test(file) &&
        !/^dist\/sandbox\/(artifacts\/contracts\/.+\.json|dashboard\/dist\/[\w-]+\.(html|js|css))$/.test(file),
    );
    expect(strange).to.deep.equal([]);
  });

  it("loads every entry point by import and by require, with the same exports", async () => {
    const list = JSON.stringify(entryPoints());
    await writeFile(
      join(project.folder, "entry-points.mjs"),
      `import { createRequire } from "node:module";
      const require = createRequire(import.meta.url);
      for (const entry of ${list}) {
        const names = [Object.keys(await import(entry)), Object.keys(require(entry))].map((keys) =>
          keys.filter((key) => key !== "default" && key !== "module.exports" && key !== "__esModule").sort().join());
        console.log(entry, names[0] === names[1] && names[0].length > 0);
      }`,
    );
    const lines = (await project.run("entry-points.mjs")).trim().split("\n");
    expect(lines).to.deep.equal(entryPoints().map((entry) => `${entry} true`));
  });

  it("serves plain JavaScript as an ECMAScript module", async () => {
    expect(await project.run("plain.mjs")).to.equal("esm 0.50\n");
  });

  it("serves plain JavaScript as CommonJS", async () => {
    expect(await project.run("plain.cjs")).to.match(/^cjs 0x[0-9a-fA-F]{40}\n$/);
  });

  // test/agreement compares them with what AGENTS.md shows.
  const assistantPrograms = readdirSync(join(__dirname, "support/app/assistant")).map((file) =>
    join("assistant", file),
  );

  // What require() resolves to is typed as well, which `npm run check:package` checks for every entry point.
  for (const resolution of ["nodenext", "bundler"] as const) {
    it(`is typed for TypeScript, strict, resolution ${resolution}`, async () => {
      const own = { name: "an-empty-project", type: "module" };
      await writeFile(join(project.folder, "package.json"), JSON.stringify(own));
      const module = resolution === "bundler" ? "esnext" : resolution;
      const options = ["--strict", "--noEmit", "--target", "es2022", "--exactOptionalPropertyTypes"];
      await project.run(
        TSC,
        ...options,
        "--skipLibCheck",
        "--module",
        module,
        "--moduleResolution",
        resolution,
        "typed.ts",
        ...(resolution === "nodenext" ? assistantPrograms : []),
      );
    });
  }

  it("has every type it names in its own declarations", async () => {
    const files = project.files.filter((file) => file.endsWith(".d.mts"));
    expect(files.length).to.be.greaterThan(10);
    const texts = await Promise.all(
      files.map((file) => readFile(join(project.folder, "node_modules/turnpike", file), "utf8")),
    );
    const packages = texts.flatMap((text) => [...text.matchAll(/from "([^."][^"]*)"/g)].map(([, name = ""]) => name));
    const own = new Set([
      ...Object.keys(project.manifest.dependencies),
      ...Object.keys(project.manifest.peerDependencies),
    ]);
    const nameOf = (path: string) =>
      path
        .split("/")
        .slice(0, path.startsWith("@") ? 2 : 1)
        .join("/");
    const strange = packages.filter((path) => !path.startsWith("node:") && !own.has(nameOf(path)));
    expect([...new Set(strange)]).to.deep.equal([]);
  });

  it("runs in one file of a bundler that does not split, beside others who use zod and ethers", async () => {
    const program = `import * as z from "zod/v4";
      import { Interface } from "ethers";
      import { createAgent } from "turnpike/agent";
      import { connectRpc } from "turnpike/chain";
      import { createProvider } from "turnpike/gate";
      const iface = new Interface(["function a()"]);
      const rpc = connectRpc({ urls: "ws://127.0.0.1:9", chainId: 1 });
      rpc.send("eth_chainId", []).catch(({ message }) => {
        rpc.close();
        const isRead = z.custom((value) => value === 1).safeParse(1).success;
        console.log(isRead, iface.encodeFunctionData("a"), typeof createAgent, typeof createProvider, message);
      });`;
    const { text } = await bundle(program, { cwd: project.folder, platform: "node", format: "cjs" });
    await writeFile(join(project.folder, "one-file.cjs"), text);
    expect(await project.run("one-file.cjs")).to.equal(
      "true 0x0dbe671f function function The chain cannot be asked at 127.0.0.1:9 (eth_chainId: ECONNRESET).\n",
    );
  });

  it("leaves out of a bundle what is not used", async () => {
    const of = (code: string) => bundle(code, { cwd: project.folder });
    const amounts = await of(`import { formatAmount } from "turnpike/protocol"; console.log(formatAmount(1n));`);
    expect(amounts.packages, "an amount needs no library").to.deep.equal([]);
    // The errors, by which an argument of another kind is refused, and no schema.
    expect(amounts.bytes).to.be.lessThan(12_500);
    const protocol = await of(`export * from "turnpike/protocol";`);
    expect(protocol.packages).to.deep.equal(["@noble/curves", "@noble/hashes", "ipaddr.js", "zod"]);
    const agent = await of(`export { createAgent } from "turnpike/agent";`);
    expect(agent.packages).to.deep.equal(["@noble/curves", "@noble/hashes", "zod"]);
  });
});
