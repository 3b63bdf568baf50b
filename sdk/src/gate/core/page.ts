/** Decides which requests of a route get a page for people instead of JSON, and what the page offers. */
import { ConfigError, HEADER, isEip3009, type Network } from "../../protocol";
import { prefersHtml } from "../page/accept";
import { renderPage } from "../page/document";
import { type PageOption, withoutTurning } from "../page/terms";
import type { Discovery, Presentation } from "./offers";
import type { Price } from "./pricing";
import type { Quote } from "./quote";
import type { GateRequest } from "./request";
import type { Settings } from "./settings";

/** The options of a route that decide about its page. */
interface PageOptions {
  readonly page?: unknown;
  readonly bind?: unknown;
  readonly discovery?: Pick<Discovery, "body"> | undefined;
}

/**
 * Checks whether a route can have a page.
 * @throws ConfigError naming the option
 */
export function hasPage({ page, bind, discovery }: PageOptions, prices: readonly Price[]): boolean {
  if (page === undefined || page === false) return false;
  if (page !== true) throw new ConfigError(`page is ${JSON.stringify(page)}: use true or false`);
  if (prices.length === 0) {
    throw new ConfigError("page is set, but pricing has no one-time entry: a page sells single requests; add one");
  }
  if (bind === "body" || discovery?.body !== undefined) {
    const other = bind === "body" ? 'bind: "body"' : "discovery.body";
    throw new ConfigError(`page is set beside ${other}: a browser opens a page by GET, without a body; remove one`);
  }
  for (const { context } of prices) {
    const { token, network } = context.settings;
    if (token?.decimals !== undefined) continue;
    throw new ConfigError(
      `page is set, but the decimals of token ${token?.address} on ${network.name} are not: set token.decimals (TURNPIKE_TOKEN_DECIMALS)`,
    );
  }
  return true;
}

const CREDENTIALS = [HEADER.payment, HEADER.paymentSignatureV2, HEADER.subscription, HEADER.signIn].map((name) =>
  name.toLowerCase(),
);

/** Returns whether a request is a browser's that opens a page. A client that pays already reads JSON. */
function opensPage(request: Pick<GateRequest, "method" | "header">): boolean {
  if (request.method !== "GET" || !prefersHtml(request.header("accept"))) return false;
  return CREDENTIALS.every((name) => request.header(name) === undefined);
}

export interface PageRequest {
  readonly request: Pick<GateRequest, "method" | "header">;
  readonly resource: string;
  readonly presentation: Pick<Presentation, "description" | "mimeType">;
  readonly settings: Pick<Settings, "quoteLifeSec">;
  readonly quote: Quote;
}

/** @returns undefined for clients that get JSON, and where nothing is offered that a browser wallet can pay */
export function pageFor({ request, resource, presentation, settings, quote }: PageRequest): string | undefined {
  if (!opensPage(request)) return undefined;
  const options = optionsOf(quote);
  if (options.length === 0) return undefined;
  const { description, mimeType } = presentation;
  return renderPage({ description, mimeType, resource, quoteLifeSec: settings.quoteLifeSec, options });
}

/** Of two entries with one token, network and payee the cheaper: they are sorted by price. */
function optionsOf({ body, sold }: Pick<Quote, "body" | "sold">): PageOption[] {
  const places = new Set<string>();
  return body.accepts.flatMap((entry, place): PageOption[] => {
    const offer = sold[place];
    if (offer?.kind !== "one-time" || entry.scheme !== "exact" || !isEip3009(entry.extra)) return [];
    const { network, token } = offer.context.settings;
    const target = `${entry.network} ${entry.asset} ${entry.payTo}`;
    if (token?.decimals === undefined || places.has(target)) return [];
    places.add(target);
    const symbol = withoutTurning(token.symbol ?? offer.token.name);
    return [{ chainId: network.chainId, network: shownName(network), symbol, decimals: token.decimals, entry }];
  });
}

/** A network's name for people: "Base", "Base Sepolia", "Local 31337". */
function shownName({ name }: Network): string {
  const words = name.split("-").filter((word) => word !== "mainnet" && word !== "");
  return words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join(" ") || name;
}
