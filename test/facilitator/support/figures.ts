/** Figures of a drill, one JSON line each, for `npm run drill`. */
import { appendFileSync } from "node:fs";

export function record(drill: string, figures: Readonly<Record<string, string | number>>): void {
  const file = process.env.DRILL_FIGURES;
  if (file) appendFileSync(file, `${JSON.stringify({ drill, ...figures })}\n`);
}
