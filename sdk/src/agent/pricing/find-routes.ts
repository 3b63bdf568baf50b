/** Implements `agent.find`: the priced routes that a site lists in its OpenAPI document. It pays and signs nothing. */
import { Unavailable } from "../../protocol";
import { boundedText, Deadline } from "../../protocol/exchange";
import {
  documentUrlOf,
  MAX_DOCUMENT_BYTES,
  type PricedOperation,
  pricedOperationsIn,
  type StatedPrice,
} from "../../protocol/priced-operations";
import type { AgentContext } from "../core/context";
import { sendWithinOrigin, templateOf } from "../core/request";

/** A route that a site lists. Its text and its prices are the site's word: `quote` asks the route itself. */
export interface FoundRoute extends StatedPrice {
  /** the URL, on the site's own origin; a segment of its path may be `{name}` */
  readonly resource: string;
  /** upper case */
  readonly method: string;
  readonly description?: string;
}

/** What a site lists. */
export interface FoundRoutes {
  /** where its document is */
  readonly document: string;
  readonly resources: readonly FoundRoute[];
}

/** Returns what a site lists; undefined where it has no such document. @throws InvalidRequest, Unavailable */
export async function findRoutes(context: AgentContext, site: string | URL): Promise<FoundRoutes | undefined> {
  const { effects } = context;
  const { url } = await templateOf(site);
  const deadline = new Deadline(effects.limits.requestTimeoutMs, undefined);
  try {
    const template = await templateOf(documentUrlOf(url), {
      headers: { accept: "application/json" },
      signal: deadline.signal,
    });
    const arrival = await sendWithinOrigin(effects, template, {});
    const { response } = arrival;
    if (response.status >= 500) throw new Unavailable(`${template.url} answers HTTP ${response.status}.`);
    const text = response.status === 200 ? await boundedText(response, MAX_DOCUMENT_BYTES) : undefined;
    if (text === undefined) await response.body?.cancel().catch(() => undefined);
    const operations = text === undefined ? undefined : pricedOperationsIn(text, arrival.template.url);
    return operations && { document: arrival.template.url, resources: operations.flatMap(routeOf) };
  } catch (error) {
    if (!deadline.isOver) throw error;
    throw new Unavailable(`The document of ${new URL(url).origin} did not arrive in time.`, { cause: error });
  } finally {
    deadline.end();
  }
}

const routeOf = ({ resource, method, description, stated }: PricedOperation): FoundRoute[] =>
  resource === undefined ? [] : [{ resource, method, ...(description !== undefined && { description }), ...stated }];
