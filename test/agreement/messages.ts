import { readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect } from "chai";
import { createPolicy } from "../../sdk/src/agent/core/policy";

const SOURCE = resolve(__dirname, "../../sdk/src");

function filesBelow(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return entry.name === "generated" ? [] : filesBelow(path);
    return path.endsWith(".ts") ? [path] : [];
  });
}

const textOf = (path: string): string => readFileSync(join(SOURCE, path), "utf8");
const namesIn = (path: string, interfaceName: string): Set<string> => {
  const body = new RegExp(`interface ${interfaceName} \\{([\\s\\S]*?)\\n\\}`).exec(textOf(path))?.[1] ?? "";
  return new Set([...body.matchAll(/^ {2}readonly (\w+)\??:/gm)].map(([, name = ""]) => name));
};

describe("agreement > messages", () => {
  const files = filesBelow(SOURCE).map((path) => ({ path, text: readFileSync(path, "utf8") }));

  it("HB7 no docstring that ships sends its reader to a source file of the package", () => {
    const found = files.flatMap(({ path, text }) =>
      [...text.matchAll(/@see[^\n]*(?:\.\/|\bin \.|\.ts\b)[^\n]*/g)].map(([line]) => `${path}: ${line}`),
    );
    expect(found).to.deep.equal([]);
  });

  it("HB7 every setting that a message names exists", () => {
    const known: Readonly<Record<string, Set<string>>> = {
      policy: namesIn("agent/core/policy-options.ts", "AgentPolicy"),
      limits: namesIn("agent/core/effects.ts", "AgentLimits"),
    };
    expect(known.policy).to.include("tokens");
    expect(known.limits).to.include("settleMs");
    const named = ["gate/core/options.ts", "cli/environment.ts", "mcp/wallet/config.ts"].map(textOf).join("\n");
    const environment = new Set(named.match(/TURNPIKE_[A-Z_]+/g));
    // What `init` writes reads settings of its own, from the file that it writes too.
    for (const { path, text } of files.filter((file) => !file.path.includes(join("cli", "init")))) {
      const messages = [...text.matchAll(/(?:`[^`]*`|"[^"\n]*")/g)].map(([message]) => message);
      for (const message of messages) {
        for (const [, group = "", name = ""] of message.matchAll(/\b(policy|limits)\.(?!json\b)([a-z]\w+)/g)) {
          expect([...(known[group] ?? [])], `${path}: ${message}`).to.include(name);
        }
        for (const name of message.match(/\bTURNPIKE_[A-Z_]+/g) ?? []) {
          expect([...environment], `${path}: ${message}`).to.include(name);
        }
      }
    }
  });

  it("HB7 a token that is not allowed names what policy.tokens holds, and nothing else", () => {
    const [token, other] = [`0x${"11".repeat(20)}`, `0x${"22".repeat(20)}`] as const;
    const said = (tokens: readonly string[] | undefined, chainId: number) => {
      const policy = createPolicy({ perPayment: 1, perDay: 1, ...(tokens ? { tokens } : {}) });
      const facts = { kind: "payment" as const, amount: 1n, chainId, token, payTo: other };
      const verdict = policy.judge(facts, { hasPaid: () => true });
      return verdict.kind === "refuse" ? verdict.error.message : verdict.kind;
    };
    expect(said(undefined, 31_337)).to.match(/policy\.tokens is not set, and local-31337 has no default token/);
    expect(said(undefined, 8_453)).to.match(/policy\.tokens is not set, and the default there is 0x833589/);
    expect(said([other], 8_453)).to.include(`policy.tokens lists ${other}`);
    expect(said([], 8_453)).to.include("policy.tokens lists none");
  });
});
