import { expect } from "chai";
import { ENDPOINTS } from "turnpike/facilitator";
import { createApp } from "../../../facilitator/src/http/app";
import { unusedServices } from "../../support/unused-services";
import { expectProblem } from "../support/problem";

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

describe("Facilitator: methods of a route", () => {
  const app = createApp(unusedServices({ sandbox: {} as never }));
  const besides = ["/openapi.json", "/metrics", "/events/live"].map((path) => ({ path, method: "get" }));
  const routes = [...ENDPOINTS, ...besides].map(({ path, method }) => ({ path, method: method.toUpperCase() }));

  it("are named with 405 by every route that is asked with another one, and by OPTIONS", async () => {
    for (const url of new Set(routes.map(({ path }) => path.replaceAll(/\{\w+\}/g, "x")))) {
      const own = routes.filter(({ path }) => new RegExp(`^${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`).test(url));
      const takes = (name: string) => own.some(({ method }) => method === (name === "HEAD" ? "GET" : name));
      const allow = [...METHODS.filter(takes), "OPTIONS"].join(", ");
      for (const method of METHODS.filter((name) => !takes(name))) {
        const answer = await app.request(url, { method });
        expect([answer.status, answer.headers.get("allow")], `${method} ${url}`).to.deep.equal([405, allow]);
        if (method !== "HEAD") await expectProblem(answer, 405, "MethodNotAllowed");
      }
      const options = await app.request(url, { method: "OPTIONS" });
      expect([options.status, options.headers.get("allow")], url).to.deep.equal([204, allow]);
    }
  });

  it("are none where there is no route", async () => {
    for (const method of ["GET", "POST", "PUT"])
      await expectProblem(await app.request("/nowhere", { method }), 404, "NotFound");
    expect((await app.request("/nowhere", { method: "OPTIONS" })).headers.get("allow")).to.equal(null);
  });
});
