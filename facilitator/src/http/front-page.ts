/** What a person sees at `/`: which service this is and what it answers. Static but for its own configuration. */
import type { Doors } from "./app";
import type { Endpoint } from "./endpoint";

export function frontPage({ network, supported }: Doors, endpoints: readonly Endpoint[]): string {
  const rows = endpoints.map(({ method, path }) => `<li><code>${method.toUpperCase()} ${path}</code></li>`).join("\n");
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Turnpike Facilitator</title>
<style>:root{color-scheme:light dark}body{font:16px/1.5 system-ui;max-width:44rem;margin:2rem auto;padding:0 1rem}</style>
<h1>Turnpike Facilitator</h1>
<p>Settles payments and collects subscriptions on <strong>${network.name}</strong> (chain ${network.chainId}),
contract <code>${supported.turnpike}</code>.</p>
<ul>
${rows}
<li><code>GET <a href="/openapi.json">/openapi.json</a></code></li>
<li><code>GET <a href="/metrics">/metrics</a></code></li>
</ul>
</html>
`;
}
