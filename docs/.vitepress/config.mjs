import { readFileSync } from "node:fs";

/** The pages of a section of the index, by their first link. */
const itemsOf = (section) =>
  [...section.matchAll(/^- \[([^\]]+)\]\(([^)#]+)\.md[^)]*\)/gm)].map(([, text, link]) => ({ text, link: `/${link}` }));

const sections = readFileSync(new URL("../index.md", import.meta.url), "utf8")
  .split(/^## /m)
  .slice(1);

export default {
  title: "Turnpike",
  description: "The payment layer for HTTP APIs and the agents that call them",
  // Pages name path parameters as {id}, which are no attributes.
  markdown: { attrs: { disable: true }, languageAlias: { proto: "txt" } },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    sidebar: sections.map((section) => ({
      text: section.split("\n", 1)[0],
      collapsed: !/^(?:Quickstart|Guides)/.test(section),
      items: itemsOf(section),
    })),
  },
};
