import path from "node:path";

/** What the package itself imports is the repository's, so modules are looked for up to there. */
export default {
  serverExternalPackages: ["turnpike"],
  turbopack: { root: path.resolve(import.meta.dirname, "../..") },
};
