/**
 * Shows what was bought. HTML gets a frame without scripts, forms, popups or an origin; text and JSON are set as text.
 * Everything can be saved.
 */
import type { Content } from "./present";

/** A longer text is only saved: a browser needs long to lay it out. */
const MAX_SHOWN_BYTES = 1_048_576;

/** Those that differ from the subtype's name. */
const EXTENSIONS: Readonly<Record<string, string>> = { plain: "txt", markdown: "md", jpeg: "jpg", "svg+xml": "svg" };

/** @returns the element to show; undefined where the content can only be saved */
export function elementOf({ type, disposition, bytes }: Content, title: string): HTMLElement | undefined {
  const kind = kindOf(type);
  if (/^\s*attachment/i.test(disposition)) return undefined;
  if (/^image\//.test(kind)) return imageOf(kind, bytes, title);
  if (bytes.byteLength > MAX_SHOWN_BYTES) return undefined;
  if (kind === "text/html" || kind === "application/xhtml+xml") return frameOf(textOf(type, bytes), title);
  if (/^text\/|[/+](?:json|xml|yaml)$/.test(kind)) return preformatted(textOf(type, bytes), /[/+]json$/.test(kind));
  return undefined;
}

/** A link that saves the content: never a document of this origin, whatever its type. */
export function saveLinkOf({ type, disposition, bytes }: Content): HTMLAnchorElement {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  link.download = nameOf(type, disposition);
  link.textContent = "Save a copy";
  return link;
}

const kindOf = (type: string): string => (type.split(";", 1)[0] ?? "").trim().toLowerCase();

function frameOf(html: string, title: string): HTMLElement {
  const frame = document.createElement("iframe");
  // Before the content: without the attribute the frame would be of this origin.
  frame.setAttribute("sandbox", "");
  frame.setAttribute("referrerpolicy", "no-referrer");
  frame.title = title;
  frame.srcdoc = html;
  return frame;
}

function imageOf(kind: string, bytes: ArrayBuffer, title: string): HTMLElement {
  const image = document.createElement("img");
  image.alt = title;
  image.src = URL.createObjectURL(new Blob([bytes], { type: kind }));
  return image;
}

function preformatted(text: string, isJson: boolean): HTMLElement {
  const block = document.createElement("pre");
  block.tabIndex = 0;
  block.textContent = isJson ? indented(text) : text;
  return block;
}

function indented(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), undefined, 2);
  } catch {
    return json;
  }
}

function textOf(type: string, bytes: ArrayBuffer): string {
  const [, charset = "utf-8"] = /charset\s*=\s*"?([^\s;"]+)/i.exec(type) ?? [];
  try {
    return new TextDecoder(charset).decode(bytes);
  } catch {
    return new TextDecoder().decode(bytes);
  }
}

function nameOf(type: string, disposition: string): string {
  const [, given] = /filename="?([^";]+)/i.exec(disposition) ?? [];
  const name = (given ?? location.pathname.split("/").pop() ?? "").replace(/[^\w. -]/g, "_") || "content";
  if (given !== undefined || /\.\w{2,4}$/.test(name)) return name;
  const [, subtype = ""] = kindOf(type).split("/");
  const extension = EXTENSIONS[subtype] ?? subtype;
  return /^\w{2,4}$/.test(extension) ? `${name}.${extension}` : name;
}
