import { expect } from "chai";
import { prefersHtml } from "../../../../sdk/src/gate/page/accept";

const CHROME =
  "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7";
const FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

const PAGE = [
  CHROME,
  FIREFOX,
  "text/html",
  "TEXT/HTML ; Q=0.5",
  "text/html;charset=utf-8",
  "text/*",
  "text/html;q=0.9, application/json;q=0.8",
  "text/html;q=0.1, application/json;q=0",
  "application/json;q=0.899, text/html;q=0.9",
  "text/html, */*;q=0.999",
  "text/*;q=0.2, text/html;q=0.9, application/*;q=0.5",
];

const JSON_ONES = [
  undefined,
  "",
  "*/*",
  "application/json",
  "application/json, text/plain, */*",
  "application/json, text/html",
  "text/html, application/json",
  "text/html, */*",
  "text/html;q=0.8, application/json;q=0.8",
  "text/html;q=0.8, */*;q=0.9",
  "text/html;q=0, */*",
  "text/*, text/html;q=0",
  "text/html;q=0",
  "text/html;q=2",
  "text/html;q=0.1234",
  "text/html;q=",
  "text/html;q=-1",
  "text/html;level=1",
  "text/htmlx",
  "text/event-stream",
  `text/html,${" ".repeat(4_000)}`,
];

describe("gate > page > Accept", () => {
  it("prefers a page where text/html has the greater quality", () => {
    for (const accept of PAGE) expect(prefersHtml(accept), accept).to.equal(true);
  });

  it("C34 gives JSON to every client that does not prefer text/html, or sends no readable preference", () => {
    for (const accept of JSON_ONES) expect(prefersHtml(accept), String(accept)).to.equal(false);
  });
});
