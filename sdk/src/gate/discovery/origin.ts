/** Compares where the gates are with where an OpenAPI document says that its operations are. */
import { ConfigError } from "../../protocol";
import { serverUrlOf } from "../../protocol/priced-operations";
import type { PathTemplate } from "./place";

export class Origin {
  /** that the gates' paths begin with */
  readonly gates: string;
  /** of the document's first server, that its paths begin with */
  readonly server: string;
  /** of the gates; any, where nothing but relative URLs names them */
  readonly #url: string;
  /** whether the gates are on the document's first server */
  readonly #isServer: boolean;

  constructor(servers: unknown, publicUrl: string | undefined) {
    const server = serverUrlOf({ servers });
    this.gates = publicUrl === undefined ? "" : pathOf(publicUrl);
    this.server = server === undefined ? this.gates : pathOf(server);
    this.#url = [publicUrl, server].find((url) => url !== undefined && URL.canParse(url)) ?? "http://relative.invalid";
    this.#isServer = server === undefined || this.#isOwn(server);
  }

  /** Returns what the path of an operation begins with; undefined where the gates do not serve it. */
  baseOf(operation: unknown, item: unknown): string | undefined {
    const url = serverUrlOf(operation, item);
    if (url === undefined) return this.#isServer ? this.server : undefined;
    return this.#isOwn(url) ? pathOf(url) : undefined;
  }

  #isOwn(url: string): boolean {
    return URL.canParse(url, this.#url) && new URL(url, this.#url).origin === new URL(this.#url).origin;
  }

  /** Returns a route's path in the document. @throws ConfigError where the document's server is not above the route */
  below(path: PathTemplate): PathTemplate {
    const { server, gates } = this;
    const whole = `${gates}${path.template}`;
    if (!this.#isServer) {
      throw new ConfigError(
        `document.servers[0].url has another origin than the gates' publicUrl, where the route ${whole} is: put the gates' server first`,
      );
    }
    if (server === "" || whole === server || whole.startsWith(`${server}/`)) {
      return { ...path, template: whole.slice(server.length) || "/" };
    }
    throw new ConfigError(
      `document.servers[0].url begins with the path ${server}, and the route ${whole} is not below it: set discovery.path of the route to its whole path, or correct the server`,
    );
  }
}

/** Returns the path of a URL, also of a relative one, without a slash at its end. */
function pathOf(url: string): string {
  const [, path = ""] = /^(?:[a-z][a-z0-9+.-]*:)?(?:\/\/[^/?#]*)?([^?#]*)/i.exec(url) ?? [];
  return path.startsWith("/") ? path.replace(/\/+$/, "") : "";
}
