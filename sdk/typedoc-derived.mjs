/**
 * Documents what is derived, so that it is not written twice: a wire type says which schema it comes from, an error
 * class which row of the table it is. Everything else is documented at its declaration.
 */
import { Comment, Converter, ReflectionKind } from "typedoc";

const DERIVED = /\b(output|input|infer)<.*?(\w+Schema)\b/s;

function textOf(reflection) {
  const derived = DERIVED.exec(reflection.type?.toString() ?? "");
  if (reflection.kind === ReflectionKind.TypeAlias && derived) {
    const [, direction, schema] = derived;
    return direction === "input"
      ? `As sent on the wire, before \`${schema}\` has read it: amounts are decimal strings.`
      : `As \`${schema}\` reads it: amounts are \`bigint\`.`;
  }
  if (reflection.kind === ReflectionKind.Variable && /Schema$/.test(reflection.name)) {
    return "The zod schema of this body on the wire; the types of the same name are derived from it.";
  }
  const isError = reflection.children?.some(({ name }) => name === "remedy");
  if (reflection.kind === ReflectionKind.Class && isError) {
    return `Thrown with \`code\` "${reflection.name}"; \`ERRORS\` has its cause and remedy.`;
  }
  return undefined;
}

export function load(app) {
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, ({ project }) => {
    const kinds = ReflectionKind.TypeAlias | ReflectionKind.Variable | ReflectionKind.Class;
    for (const reflection of project.getReflectionsByKind(kinds)) {
      const text = reflection.hasComment() ? undefined : textOf(reflection);
      if (text) reflection.comment = new Comment([{ kind: "text", text }]);
    }
  });
}
