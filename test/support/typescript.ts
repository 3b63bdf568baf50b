import path from "node:path";

/** Arguments of Node that run a TypeScript file as a process of its own. */
export const RUN_TYPESCRIPT = ["-r", path.join(__dirname, "../../tools/typescript.cjs")];
