/** Reads the TypeScript of the documentation's pages, and compiles it as one program. */
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import ts from "typescript";
import { declarationsFor } from "./snippet-names";

const ROOT = path.resolve(__dirname, "../../..");

const FOLDERS = ["docs/guides", "docs/quickstart", "docs/concepts", "docs/operators"];

/** Shows programs that the interop suite runs, with packages that only that suite installs. */
const ELSEWHERE = "docs/guides/stock-x402.md";

export interface Snippet {
  readonly page: string;
  /** of the first line of code, in its page */
  readonly line: number;
  readonly code: string;
}

export function snippetsOfPages(): Snippet[] {
  const pages = FOLDERS.flatMap((folder) =>
    readdirSync(path.join(ROOT, folder)).flatMap((name) => (name.endsWith(".md") ? [`${folder}/${name}`] : [])),
  );
  return ["README.md", "sdk/README.md", "sdk/AGENTS.md", ...pages]
    .filter((page) => page !== ELSEWHERE)
    .flatMap((page) => snippetsIn(page, readFileSync(path.join(ROOT, page), "utf8")));
}

function snippetsIn(page: string, text: string): Snippet[] {
  return [...text.matchAll(/^```ts(?: \[[^\]]+\])?\n([\s\S]*?)^```/gm)].map(({ index, 1: code = "" }) => ({
    page,
    line: text.slice(0, index).split("\n").length + 1,
    code,
  }));
}

/** Of a package that only the framework suite installs. */
const ABSENT = {
  page: "",
  line: 0,
  code: 'declare module "next/server" { export class NextRequest extends Request {} }',
};

/** Compiles each snippet as a module of its own. @returns what is wrong, with its place in the page */
export function faultsOf(snippets: readonly Snippet[]): string[] {
  const modules = new Map(snippets.map((snippet, place) => [path.join(ROOT, `snippet-${place}.ts`), snippet]));
  const ambient = path.join(ROOT, "snippet-absent.d.ts");
  const host = hostOf(new Map([...modules, [ambient, ABSENT]]));
  const program = ts.createProgram([ambient, ...modules.keys()], compilerOptions(), host);
  return [...modules].flatMap(([file, { page, line }]) => {
    const source = program.getSourceFile(file);
    const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)];
    const faults = found.filter(({ code }) => code !== AWAIT_IN_COMMONJS);
    return faults.map(({ start = 0, messageText }) => {
      // The line before the code has the declarations.
      const place = line - 1 + (source?.getLineAndCharacterOfPosition(start).line ?? 0);
      return `${page}:${place} ${ts.flattenDiagnosticMessageText(messageText, " ")}`;
    });
  });
}

/** Readers' modules are ESM. Here they are what the SDK's sources are, so that both have the same types of packages. */
const AWAIT_IN_COMMONJS = 1_309;

function compilerOptions(): ts.CompilerOptions {
  const { config } = ts.readConfigFile(path.join(ROOT, "tsconfig.json"), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: [] }, ts.sys, ROOT);
  return { ...options, types: ["node"] };
}

function hostOf(modules: ReadonlyMap<string, Snippet>): ts.CompilerHost {
  const host = ts.createCompilerHost(compilerOptions());
  const textOf = (file: string): string | undefined => {
    const snippet = modules.get(path.normalize(file));
    if (!snippet || snippet === ABSENT) return snippet?.code;
    return `${declarationsFor(snippet)}\n${snippet.code}\nexport {};`;
  };
  return {
    ...host,
    fileExists: (file) => modules.has(path.normalize(file)) || host.fileExists(file),
    readFile: (file) => textOf(file) ?? host.readFile(file),
    getSourceFile(file, options, ...rest) {
      const text = textOf(file);
      return text === undefined
        ? host.getSourceFile(file, options, ...rest)
        : ts.createSourceFile(file, text, options, true);
    },
  };
}
