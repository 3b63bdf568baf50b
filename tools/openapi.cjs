/**
 * The Facilitator's openapi.json without a running service, and its pages for the site. `node tools/openapi.cjs FILE`
 * writes it to a file.
 */
require("./typescript.cjs");
const { mkdirSync, writeFileSync } = require("node:fs");
const { dirname } = require("node:path");

async function openApiDocument() {
  const { createApp } = require("../facilitator/src/http/app.ts");
  const { unusedServices } = require("../test/support/unused-services.ts");
  const answer = await createApp(unusedServices()).request("/openapi.json");
  return answer.json();
}

/** @returns the referenced component, or the value itself */
function resolved(document, value) {
  const name = value?.$ref?.replace("#/components/", "").split("/");
  return name ? document.components[name[0]][name[1]] : value;
}

const cell = (text) => text.replaceAll("|", "\\|").replaceAll("\n", " ");

function typeOf(schema) {
  if (schema.enum) return schema.enum.map((value) => `\`${value}\``).join(", ");
  if (schema.type === "array") return `list of ${typeOf(schema.items ?? {})}`;
  for (const key of ["anyOf", "oneOf"]) if (schema[key]) return [...new Set(schema[key].map(typeOf))].join(" or ");
  return [schema.type ?? "any"].flat().join(" or ");
}

function parametersOf({ parameters = [] }) {
  if (parameters.length === 0) return [];
  const rows = parameters.map(
    ({ name, in: where, required, schema, example }) =>
      `| \`${name}\` | ${where} | ${required ? "yes" : "no"} | ${cell(typeOf(schema))} | \`${example}\` |`,
  );
  return ["| parameter | in | required | type | example |", "|---|---|---|---|---|", ...rows, ""];
}

const exampleOf = (example) => ["```json", JSON.stringify(example, null, 2), "```", ""];

function bodyOf(document, title, media) {
  if (!media) return [];
  const name = media.schema.$ref?.split("/").pop();
  const { properties = {}, required = [] } = resolved(document, media.schema);
  const fields = Object.entries(properties).map(
    ([field, schema]) => `| \`${field}\` | ${cell(typeOf(schema))} | ${required.includes(field) ? "yes" : "no"} |`,
  );
  return [
    ...[`${title}${name ? `, schema \`${name}\`` : ""}:`, ""],
    ...(fields.length > 0 ? ["| field | type | always |", "|---|---|---|", ...fields, ""] : []),
    ...(media.example === undefined ? [] : exampleOf(media.example)),
  ];
}

function operationOf(document, method, path, operation) {
  const scope = operation.security[0]?.apiKey;
  const access = scope ? `an API key${scope.length > 0 ? ` with the scope \`${scope[0]}\`` : ""}` : "open to anyone";
  const answers = Object.entries(operation.responses).filter(([status]) => status !== "default");
  const errors = answers.filter(([, { $ref }]) => $ref !== undefined);
  return [
    ...[`## ${method.toUpperCase()} ${path}`, "", operation.description, ""],
    ...[`Operation \`${operation.operationId}\`; ${access}.`, ""],
    ...parametersOf(operation),
    ...bodyOf(document, "Request body", operation.requestBody?.content["application/json"]),
    ...answers
      .filter(([, { $ref }]) => $ref === undefined)
      .flatMap(([status, { content }]) =>
        content?.["text/csv"]
          ? [`Status ${status}: \`text/csv\`.`, ""]
          : bodyOf(document, `Status ${status}`, content?.["application/json"]),
      ),
    ...["| error | codes |", "|--:|---|"],
    ...errors.map(([status, answer]) => `| ${status} | ${cell(resolved(document, answer).description)} |`),
    "",
  ];
}

/** @returns the text of each page by file name: one for each tag, and a list of them */
function pagesOf(document) {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  );
  const pages = new Map();
  const list = ["# HTTP API", "", document.info.description, "", "| page | operations | about |", "|---|--:|---|"];
  for (const { name, description } of document.tags) {
    const own = operations.filter(({ operation }) => operation.tags.includes(name));
    const text = own.flatMap(({ method, path, operation }) => operationOf(document, method, path, operation));
    pages.set(`${name}.md`, `${[`# API: ${name}`, "", description, "", ...text].join("\n").trimEnd()}\n`);
    list.push(`| [${name}](${name}.md) | ${own.length} | ${description} |`);
  }
  return pages.set("README.md", `${list.join("\n")}\n`);
}

async function writeDocument(file) {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `${JSON.stringify(await openApiDocument(), null, 2)}\n`);
}

module.exports = { openApiDocument, pagesOf };

if (require.main === module) writeDocument(process.argv[2]);
