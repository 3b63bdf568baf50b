/**
 * The reference of the SDK's entry points from its types: signatures, and the first sentence of each comment.
 * `node tools/sdk-reference.cjs` writes docs/reference/sdk; `npm run docs:api` writes every comment in full.
 */
const { mkdirSync, readFileSync, rmSync, writeFileSync } = require("node:fs");
const { basename, dirname, join, sep } = require("node:path");
const ts = require("typescript");
const { firstSentence, tableOf } = require("./reference-text.cjs");

const ROOT = join(__dirname, "..");
const FOLDER = join(ROOT, "docs", "reference", "sdk");
const SOURCES = join(ROOT, "sdk", "src");

const SHORT = ts.TypeFormatFlags.UseAliasDefinedOutsideCurrentScope;
const WHOLE = SHORT | ts.TypeFormatFlags.NoTruncation;
/** Characters of a constant's type that are shown whole. */
const MAX_TYPE = 240;

/** @returns the package's entry points as `{ name, page, file }` */
function entryPoints() {
  const { exports } = JSON.parse(readFileSync(join(ROOT, "sdk", "package.json"), "utf8"));
  return Object.entries(exports).flatMap(([path, target]) => {
    const types = target.require?.types;
    if (!types) return [];
    return [
      {
        name: path.replace(".", "turnpike"),
        page: `${path === "." ? "turnpike" : path.slice(2).replaceAll("/", "-")}.md`,
        file: join(SOURCES, types.replace("./dist/", "").replace(".d.ts", ".ts")),
      },
    ];
  });
}

function programOf(files) {
  const { config } = ts.readConfigFile(join(ROOT, "tsconfig.json"), ts.sys.readFile);
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files: [] }, ts.sys, ROOT);
  return ts.createProgram(files, { ...options, types: ["node"] });
}

const oneLine = (text) =>
  text
    .replaceAll(/\{@link ([^}|\s]+)[^}]*\}/g, "`$1`")
    .replaceAll(/\s+/g, " ")
    .trim();

/** @returns a declaration's comment: its description, and the texts of the tags that are shown */
function commentOf(declaration) {
  const [comment] = ts.getJSDocCommentsAndTags(declaration).filter(ts.isJSDoc).slice(-1);
  const textOf = (node) => oneLine(ts.getTextOfJSDocComment(node?.comment) ?? "");
  const tagged = (name) => (comment?.tags ?? []).filter(({ tagName }) => tagName.text === name).map(textOf);
  return { description: textOf(comment), returns: tagged("returns"), throws: tagged("throws") };
}

const sentence = (text) => (/[.!?:]$/.test(text) ? text : `${text}.`);

/** @returns the first sentence of a comment, and what is returned and thrown */
function summaryOf(declaration) {
  const { description, returns, throws } = commentOf(declaration);
  return [
    ...(description === "" ? [] : [sentence(firstSentence(description))]),
    ...returns.map((text) => sentence(`Returns ${firstSentence(text)}`)),
    ...throws.map((text) => sentence(`Throws ${firstSentence(text)}`)),
  ].join(" ");
}

/** Cuts every comment within a declaration's source to its first sentence, on one line. */
const withShortComments = (text) =>
  text.replaceAll(/\/\*\*([\s\S]*?)\*\//g, (_, inner) => {
    const [description, ...tags] = inner
      .replaceAll(/^\s*\*/gm, "")
      .trim()
      .split(/(?=(?:^|\s)@\w+ )/);
    return `/** ${firstSentence(oneLine(description || tags[0] || ""))} */`;
  });

const memberComment = (text) => (text === "" ? [] : [`  /** ${text} */`]);

/** @returns a class or function's source without its body */
function headOf(node) {
  const text = node.getText();
  const head = node.body ? text.slice(0, node.body.getStart() - node.getStart()) : text;
  return head
    .replace(/^(?:export |default |declare )*/, "")
    .replace(/^(?:async )?(function)?/, "$1")
    .replace(/\s*(?:=>)?\s*;?\s*$/, "");
}

class Reference {
  constructor(entries) {
    this.entries = entries;
    this.program = programOf(entries.map(({ file }) => file));
    this.checker = this.program.getTypeChecker();
  }

  /** @returns what an entry point exports, as `{ name, symbol, declaration }` */
  exportsOf({ file }) {
    const module = this.checker.getSymbolAtLocation(this.program.getSourceFile(file));
    return this.checker
      .getExportsOfModule(module)
      .map((exported) => {
        const isAlias = (exported.flags & ts.SymbolFlags.Alias) !== 0;
        const symbol = isAlias ? this.checker.getAliasedSymbol(exported) : exported;
        return { name: exported.name, symbol, declaration: symbol.declarations?.[0] };
      })
      .filter(({ declaration }) => declaration !== undefined)
      .sort((a, b) => (a.name < b.name ? -1 : 1));
  }

  /** Appends the return type where the source leaves it to the compiler. */
  withReturnType(head, declaration) {
    if (declaration.type || ts.isConstructorDeclaration(declaration) || ts.isSetAccessor(declaration)) return head;
    const signature = this.checker.getSignatureFromDeclaration(declaration);
    return `${head}: ${this.shortType(signature.getReturnType(), declaration)}`;
  }

  /** A type on one line; of a zod schema only that it is one. */
  shortType(type, at) {
    const text = this.checker.typeToString(type, at, SHORT);
    return text.startsWith("z.") && text.length > MAX_TYPE ? "z.ZodType" : text;
  }

  functionOf(name, declaration) {
    if (!ts.isVariableDeclaration(declaration)) return this.withReturnType(headOf(declaration), declaration);
    const { initializer } = declaration;
    return `function ${name}${this.withReturnType(headOf(initializer), initializer)}`;
  }

  classOf(declaration) {
    const heritage = (declaration.heritageClauses ?? []).map((clause) => ` ${clause.getText()}`).join("");
    const parameters = declaration.typeParameters?.map((each) => each.getText()).join(", ");
    const isPublic = (member) =>
      (ts.getCombinedModifierFlags(member) & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected)) === 0 &&
      !(member.name && ts.isPrivateIdentifier(member.name)) &&
      !ts.isClassStaticBlockDeclaration(member);
    const members = declaration.members.filter(isPublic).flatMap((member) => {
      const comment = memberComment(firstSentence(commentOf(member).description));
      if (!ts.isPropertyDeclaration(member)) return [...comment, `  ${this.withReturnType(headOf(member), member)};`];
      const type =
        member.type?.getText() ?? this.checker.typeToString(this.checker.getTypeAtLocation(member), member, SHORT);
      const modifiers = (member.modifiers ?? []).map((each) => `${each.getText()} `).join("");
      return [...comment, `  ${modifiers}${member.name.getText()}${member.questionToken ? "?" : ""}: ${type};`];
    });
    const head = `class ${declaration.name.text}${parameters ? `<${parameters}>` : ""}${heritage}`;
    return members.length === 0 ? `${head} {}` : [`${head} {`, ...members, "}"].join("\n");
  }

  /** A type that is derived from a value, such as a schema, by its members; another one as its source has it. */
  aliasOf(declaration) {
    const source = withShortComments(declaration.getText()).replace(/^export /, "");
    const { type: node } = declaration;
    if (!ts.isTypeReferenceNode(node) || !/^(?:z\.(?:output|input|infer)|ReturnType)</.test(node.getText()))
      return source;
    const type = this.checker.getTypeAtLocation(declaration.name);
    const properties = this.checker.getPropertiesOfType(type);
    const isPlain = (type.flags & ts.TypeFlags.Object) !== 0 && !this.checker.isArrayType(type);
    const left = source.slice(0, source.indexOf("=")).trim();
    if (!isPlain || properties.length === 0) {
      const text = this.checker.typeToString(type, declaration, WHOLE | ts.TypeFormatFlags.InTypeAlias);
      return text.length > 4 * MAX_TYPE ? source : `${left} = ${text};`;
    }
    const members = properties.flatMap((property) => this.memberOf(property, declaration));
    return [`${left} = {`, ...members, "};"].join("\n");
  }

  memberOf(property, at) {
    const type = this.checker.getTypeOfSymbol(property);
    const comment = firstSentence(oneLine(ts.displayPartsToString(property.getDocumentationComment(this.checker))));
    const isOptional = (property.flags & ts.SymbolFlags.Optional) !== 0;
    const [signature] = type.getCallSignatures();
    const text = signature
      ? this.checker.signatureToString(signature, at, WHOLE)
      : `${isOptional ? "?" : ""}: ${this.checker.typeToString(type, at, WHOLE)}`;
    return [...memberComment(comment), `  ${property.name}${text};`];
  }

  constantOf(name, declaration) {
    if (declaration.type) return `const ${name}: ${declaration.type.getText()};`;
    const type = this.checker.getTypeAtLocation(declaration);
    const whole = this.checker.typeToString(type, declaration, WHOLE);
    return `const ${name}: ${whole.length > MAX_TYPE ? this.checker.typeToString(type, declaration, SHORT) : whole};`;
  }
}

/** @returns the section of a page that shows an export, or the list of names that it belongs to */
function sectionOf({ name, declaration }) {
  const { fileName } = declaration.getSourceFile();
  if (fileName.includes("/generated/")) return "generated";
  if (ts.isClassDeclaration(declaration)) {
    const base = declaration.heritageClauses?.[0]?.types[0]?.expression;
    return base && ts.isCallExpression(base) ? "errors" : "Classes";
  }
  if (ts.isInterfaceDeclaration(declaration) || ts.isTypeAliasDeclaration(declaration)) return "Types";
  if (ts.isVariableDeclaration(declaration)) {
    if (/Schema$/.test(name)) return "schemas";
    const { initializer } = declaration;
    return initializer && (ts.isArrowFunction(initializer) || ts.isFunctionExpression(initializer))
      ? "Functions"
      : "Constants";
  }
  return "Functions";
}

const SECTIONS = ["Functions", "Classes", "Types", "Constants"];

const LISTS = {
  errors: "Error classes, each with its own name as `code` ([causes and remedies](../errors.md))",
  schemas: "Zod schemas of the bodies on the wire",
  generated: "Typed ethers classes and factories of the contracts ([their functions](../contracts.md))",
};

const SCHEMA = /^z\.(output|input|infer)<typeof (\w+)>/;

/** @returns the words for a type that is derived from a schema */
function derivedSummary(declaration) {
  const [, direction, schema] = SCHEMA.exec(declaration.type?.getText() ?? "") ?? [];
  if (!schema) return "";
  return direction === "input"
    ? `As sent on the wire, before \`${schema}\` has read it.`
    : `As \`${schema}\` reads it.`;
}

function symbolText(reference, section, { name, declaration }) {
  const code = {
    Functions: () => reference.functionOf(name, declaration),
    Classes: () => reference.classOf(declaration),
    Types: () =>
      ts.isTypeAliasDeclaration(declaration)
        ? reference.aliasOf(declaration)
        : withShortComments(declaration.getText()).replace(/^export /, ""),
    Constants: () => reference.constantOf(name, declaration),
  }[section]();
  const summary = summaryOf(declaration) || derivedSummary(declaration);
  return [
    `### ${name}`,
    "",
    ...(summary === "" ? [] : [summary, ""]),
    "```ts",
    code.replaceAll(/`0x\$\{string\}`/g, "Hex"),
    "```",
    "",
  ];
}

const MAX_LINE = 110;

/** @returns names in a block of wrapped lines, under a title; nothing without names */
function namesText(title, members) {
  if (members.length === 0) return [];
  const lines = [""];
  for (const [index, { name }] of members.entries()) {
    const word = index < members.length - 1 ? `${name}, ` : name;
    if (lines.at(-1).length + word.length > MAX_LINE) lines.push("");
    lines[lines.length - 1] += word;
  }
  return [`${title}:`, "", "```text", ...lines.map((line) => line.trim()), "```", ""];
}

/** How well an entry point suits as the page of a declaration: the longest folder that holds it; its own file most. */
function fitOf({ file }, declaration) {
  // The root re-exports what others own.
  if (dirname(file) === SOURCES) return -1;
  const path = declaration.getSourceFile().fileName.replaceAll("/", sep);
  if (path === file) return Number.POSITIVE_INFINITY;
  const folder = `${dirname(file)}${sep}`;
  return basename(file) === "index.ts" && path.startsWith(folder) ? folder.length : 0;
}

/** @returns the page of each exported symbol */
function homesOf(reference) {
  const homes = new Map();
  for (const entry of reference.entries) {
    for (const { symbol, declaration } of reference.exportsOf(entry)) {
      const home = homes.get(symbol);
      if (!home || fitOf(entry, declaration) > fitOf(home, declaration)) homes.set(symbol, entry);
    }
  }
  return homes;
}

/** @returns the comment at the head of a module */
function moduleComment(reference, { file }) {
  const [statement] = reference.program.getSourceFile(file).statements;
  return commentOf(statement).description;
}

function pageOf(reference, homes, entry) {
  const exported = reference.exportsOf(entry);
  const own = exported.filter(({ symbol }) => homes.get(symbol) === entry);
  const inSection = (section) => own.filter((each) => sectionOf(each) === section);
  const listed = Object.entries(LISTS).flatMap(([list, title]) => namesText(title, inSection(list)));
  const elsewhere = reference.entries.flatMap((other) => {
    const members = exported.filter(({ symbol }) => other !== entry && homes.get(symbol) === other);
    return namesText(`Of [\`${other.name}\`](${other.page})`, members);
  });
  return [
    "<!-- Generated by `node tools/sdk-reference.cjs`. -->",
    "",
    `# ${entry.name}`,
    "",
    moduleComment(reference, entry),
    "",
    ...SECTIONS.flatMap((section) => {
      const members = inSection(section);
      return members.length === 0
        ? []
        : [`## ${section}`, "", ...members.flatMap((each) => symbolText(reference, section, each))];
    }),
    ...(listed.length === 0 ? [] : ["## By name", "", ...listed]),
    ...(elsewhere.length === 0 ? [] : ["## Also exported here", "", ...elsewhere]),
  ].join("\n");
}

function indexPage(reference) {
  const rows = reference.entries.map((entry) => [
    `[\`${entry.name}\`](${entry.page})`,
    firstSentence(moduleComment(reference, entry)),
  ]);
  return [
    "<!-- Generated by `node tools/sdk-reference.cjs`. -->",
    "",
    "# SDK",
    "",
    "What each entry point of the package `turnpike` exports: signatures, and the first sentence of each comment.",
    "`npm run docs:api` writes the same with every comment in full to `docs/api`.",
    "",
    ...tableOf(["entry point", "about"], rows),
  ].join("\n");
}

/** @returns the pages by file name */
function sdkPages() {
  const reference = new Reference(entryPoints());
  const homes = homesOf(reference);
  return new Map([
    ["README.md", indexPage(reference)],
    ...reference.entries.map((entry) => [entry.page, pageOf(reference, homes, entry)]),
  ]);
}

module.exports = { sdkPages, FOLDER };

if (require.main === module) {
  rmSync(FOLDER, { recursive: true, force: true });
  mkdirSync(FOLDER, { recursive: true });
  for (const [name, text] of sdkPages()) writeFileSync(join(FOLDER, name), text);
}
