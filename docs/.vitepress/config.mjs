import { readFileSync } from "node:fs";

/** The pages of a section of the index, by their first link. */
const itemsOf = (section) =>
  [...section.matchAll(/^- \[([^\]]+)\]\(([^)#]+)\.md[^)]*\)/gm)].map(([, text, link]) => ({ text, link: `/${link}` }));

const sections = readFileSync(new URL("../index.md", import.meta.url), "utf8")
  .split(/^## /m)
  .slice(1);

/** Pages without scripts, which have no search, no switch and no menu that opens. */
const isStatic = process.argv.includes("--mpa");

const STATIC_STYLE = ".VPNavBarHamburger, .VPNavBarExtra, .VPLocalNav { display: none !important; }";

export default {
  title: "Turnpike",
  description: "The payment layer for HTTP APIs and the agents that call them",
  // Pages name path parameters as {id}, which are no attributes.
  markdown: {
    attrs: { disable: true },
    languageAlias: { proto: "txt" },
    theme: { light: "github-light-high-contrast", dark: "github-dark-high-contrast" },
  },
  ...(isStatic && { appearance: "force-auto", head: [["style", {}, STATIC_STYLE]] }),
  themeConfig: {
    ...(!isStatic && { search: { provider: "local" } }),
    outline: isStatic ? false : [2, 3],
    sidebar: sections.map((section) => ({
      text: section.split("\n", 1)[0],
      items: itemsOf(section),
    })),
  },
};
