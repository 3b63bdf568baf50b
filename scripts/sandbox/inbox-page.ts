/**
 * Renders the inbox for people: each webhook, whether its signature is valid, and its contents. Shows text alone and
 * runs no script.
 */
import { createHash } from "node:crypto";
import { BASE } from "../../sdk/src/gate/page/style";

const STYLE = `${BASE}
main{max-width:64rem;margin:0 auto;padding:1.5rem 1rem}
ol{list-style:none;padding:0 1.25rem}
li{display:grid;grid-template-columns:10rem 8rem 1fr;gap:0 1rem;padding:.75rem 0}
li+li{border-top:1px solid var(--line)}
time{color:var(--faint)}
details{grid-column:1/-1;margin:.25rem 0 0;padding:0;border:0}
pre{overflow:auto}
.good{color:var(--good)}
.forged{color:var(--bad)}
@media (max-width:40rem){li{grid-template-columns:1fr}}`;

/** Allows the style and nothing else: a webhook may contain anything. */
const STYLE_HASH = createHash("sha256").update(STYLE).digest("base64");

export const PAGE_HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; frame-ancestors 'none'`,
  "x-content-type-options": "nosniff",
  // Webhooks that arrive meanwhile appear without a click.
  refresh: "5",
};

/** @param delivered newest first */
export function inboxPage(delivered: readonly Delivered[]): string {
  const forged = delivered.filter(({ isVerified }) => !isVerified).length;
  const summary = `${delivered.length} kept, ${forged === 0 ? "every signature good" : `${forged} with a bad signature`}`;
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Webhook inbox</title><style>${STYLE}</style>
<main><h1>Webhook inbox</h1><p>${delivered.length === 0 ? "Nothing has arrived yet." : summary}. Newest first.</p>
${delivered.length === 0 ? "" : `<ol class="panel">${delivered.map(itemOf).join("")}</ol>`}</main></html>`;
}

function itemOf({ id, type, occurredAt, isVerified, body }: Delivered): string {
  const at = new Date(occurredAt * 1_000).toISOString().slice(0, 16).replace("T", " ");
  return `<li><time>${at}</time><span class="${isVerified ? "good" : "forged"}">${isVerified ? "\u2713 verified" : "\u2717 FORGED"}</span>
<strong>${escaped(type)}</strong><details><summary><code>${escaped(id)}</code></summary><pre>${escaped(
    String(JSON.stringify(body, null, 2)),
  )}</pre></details></li>`;
}

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

const escaped = (text: string): string => text.replace(/[&<>"']/g, (sign) => ESCAPES[sign] ?? sign);

export interface Delivered {
  readonly id: string;
  readonly type: string;
  /** seconds of the chain */
  readonly occurredAt: number;
  readonly isVerified: boolean;
  readonly body: unknown;
}
