/** The accessibility rules of axe over what a page shows. */
import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";

const AXE = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

interface Found {
  readonly violations: readonly { readonly id: string; readonly nodes: readonly { readonly html: string }[] }[];
}

/** Each rule that is broken, with what breaks it. */
export async function failuresOf(page: Page): Promise<string[]> {
  // Through the debugger, whose scripts the page's own policy does not forbid.
  await page.evaluate(AXE);
  return page.evaluate(async () => {
    const { violations } = await (window as unknown as { axe: { run(): Promise<Found> } }).axe.run();
    return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" | ")}`);
  });
}
