/**
 * Reads the part of YAML that compose.yaml is written in: maps by indentation, lists in brackets or by dashes, plain and quoted
 * words, anchors with merges. Whatever else it meets, it refuses.
 */
type Value = string | readonly Value[] | { readonly [key: string]: Value };

interface Line {
  readonly indent: number;
  readonly text: string;
}

export function readPlainYaml(source: string): Value {
  const lines = source
    .split("\n")
    .filter((line) => line.trim() !== "" && !line.trim().startsWith("#"))
    .map((line): Line => ({ indent: line.length - line.trimStart().length, text: line.trim() }));
  const anchors = new Map<string, Value>();
  let place = 0;

  function block(indent: number): Value {
    return lines[place]?.text.startsWith("- ") ? list(indent) : map(indent);
  }

  function list(indent: number): Value {
    const items: Value[] = [];
    for (let line = lines[place]; line && line.indent === indent && line.text.startsWith("- "); line = lines[place]) {
      place += 1;
      items.push(scalar(line.text.slice(2)));
    }
    return items;
  }

  function map(indent: number): Value {
    const merged: Record<string, Value> = {};
    const own: Record<string, Value> = {};
    for (let line = lines[place]; line && line.indent === indent; line = lines[place]) {
      const match = /^("?)([\w<.-]+)\1:(?: (.*))?$/.exec(line.text);
      if (!match) throw new SyntaxError(`not read: ${line.text}`);
      const [, , key = "", rest = ""] = match;
      place += 1;
      const anchor = /^&(\w+)$/.exec(rest)?.[1];
      const isNested = (lines[place]?.indent ?? 0) > indent;
      const value = (rest === "" || anchor) && isNested ? block(lines[place]?.indent ?? 0) : scalar(rest);
      if (anchor) anchors.set(anchor, value);
      if (key === "<<") Object.assign(merged, value);
      else own[key] = value;
    }
    if ((lines[place]?.indent ?? 0) > indent) throw new SyntaxError(`not read: ${lines[place]?.text}`);
    return { ...merged, ...own };
  }

  function scalar(text: string): Value {
    const alias = /^\*(\w+)$/.exec(text)?.[1];
    if (alias) {
      const value = anchors.get(alias);
      if (value === undefined) throw new SyntaxError(`no anchor ${alias}`);
      return value;
    }
    if (/^\[.*\]$/.test(text))
      return text
        .slice(1, -1)
        .split(/,\s*(?=(?:[^"]*"[^"]*")*[^"]*$)/)
        .map(scalar);
    if (/^"[^"]*"$/.test(text)) return text.slice(1, -1);
    if (/^[{&!|>'"%@`]/.test(text) || text.includes(" #")) throw new SyntaxError(`not read: ${text}`);
    return text;
  }

  const read = block(0);
  if (place < lines.length) throw new SyntaxError(`not read: ${lines[place]?.text}`);
  return read;
}
