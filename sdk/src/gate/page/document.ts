/**
 * Renders the payment page: one HTML document with one script, which its policy names by hash. Every text is escaped;
 * nothing is loaded from anywhere.
 */
import { sha256, utf8ToBytes } from "../../protocol";
import { SCRIPT } from "./generated/script";
import { STYLE } from "./style";
import { labelOf, type PageOption, type PageTerms, withoutTurning } from "./terms";

export interface PageFacts extends PageTerms {
  /** what is bought, as the provider describes it; may be empty */
  readonly description: string;
  readonly mimeType: string;
  readonly resource: string;
}

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Escapes a text for an element's content and for a quoted attribute. */
const escaped = (text: string): string => text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? "");

const shown = (text: string): string => escaped(withoutTurning(text));

const SCRIPT_HASH = Buffer.from(sha256(utf8ToBytes(SCRIPT))).toString("base64");

/** What was bought may bring styles and images of its own; it is in a frame that inherits this policy. */
const POLICY = [
  "default-src 'none'",
  `script-src 'sha256-${SCRIPT_HASH}'`,
  "style-src 'unsafe-inline'",
  "img-src 'self' blob: data:",
  "connect-src 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

/** The headers that every answer with a page has, whatever was requested. */
export const PAGE_HEADERS: Readonly<Record<string, string>> = {
  "Content-Type": "text/html; charset=utf-8",
  "Content-Security-Policy": POLICY,
  "Cache-Control": "private, no-store",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "Referrer-Policy": "no-referrer",
  "Cross-Origin-Opener-Policy": "same-origin-allow-popups",
};

/** Returns the document of one quote. */
export function renderPage({ description, mimeType, resource, quoteLifeSec, options }: PageFacts): string {
  const [first] = options;
  if (!first) throw new RangeError("a page needs an option");
  const { host } = new URL(resource);
  const title = description === "" ? "A paid page" : description;
  const terms: PageTerms = { quoteLifeSec, options };
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${shown(title)} - ${shown(host)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<div id="form">
<div class="panel">
<p class="site">${shown(host)}</p>
<h1 id="title" dir="auto">${shown(title)}</h1>
<p class="price"><span id="amount">${shown(labelOf(first))}</span><span id="network">on ${shown(first.network)}</span></p>
${options.length > 1 ? optionList(options) : ""}<p id="account"></p>
<button type="button" id="action">Connect a wallet</button>
<div id="wallets"></div>
<button type="button" id="other" hidden></button>
<p id="status" role="status"></p>
<p id="problem" role="alert"></p>
<noscript><p class="problem">This page needs JavaScript and a browser wallet to pay.</p></noscript>
<p class="note">You sign one transfer of exactly this amount. No network fee is added.</p>
<details>
<summary>Details</summary>
<dl>
<dt>Address</dt><dd>${shown(resource)}</dd>
<dt>Type</dt><dd>${shown(mimeType)}</dd>
${options.map(detailsOf).join("\n")}
</dl>
<p class="note">Programs get this price as JSON: request the address with <code>Accept: application/json</code>.</p>
</details>
</div>
</div>
<div id="bought" hidden>
<div class="bar"><h1 id="received" dir="auto" tabindex="-1">${shown(title)}</h1><p id="line"></p><p id="receipt"></p><span id="save"></span></div>
<div id="content"></div>
</div>
</main>
<div id="terms" hidden data-terms="${escaped(JSON.stringify(terms))}"></div>
<script>${SCRIPT}</script>
</body>
</html>
`;
}

function optionList(options: readonly PageOption[]): string {
  const labels = options.map(
    (option, place) =>
      `<label class="option" data-place="${place}"><input type="radio" name="option" value="${place}"${place === 0 ? " checked" : ""}><b>${shown(labelOf(option))}</b><span>${shown(option.network)}</span></label>`,
  );
  return `<fieldset id="options"><legend>Pay with</legend>\n${labels.join("\n")}\n</fieldset>\n`;
}

function detailsOf({ network, chainId, symbol, entry }: PageOption): string {
  const place = `${shown(symbol)} on ${shown(network)}`;
  return `<dt>Paid to, ${place}</dt><dd>${shown(entry.payTo)}</dd>
<dt>Token, ${place} (chain ${chainId})</dt><dd>${shown(entry.asset ?? "")}</dd>`;
}
