import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect } from "chai";
import { type Documentation, serveDocumentation } from "../../scripts/sandbox/documentation";
import { freePort } from "../support/chain";

interface Answer {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly body: string;
}

describe("the sandbox's documentation", () => {
  const home = mkdtempSync(path.join(tmpdir(), "turnpike-documentation-"));
  const folder = path.join(home, "site");
  let port = 0;
  let served: Documentation;

  before(async () => {
    port = await freePort();
    served = await serveDocumentation(port, folder);
  });
  after(async () => {
    await served?.stop();
    rmSync(home, { recursive: true });
  });

  /** Sends the path as it is: fetch would shorten `/../`. */
  const ask = (target: string, method = "GET"): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const sent = request({ host: "127.0.0.1", port, path: target, method }, (response) => {
        let body = "";
        response.setEncoding("utf8").on("data", (chunk) => (body += chunk));
        response.on("end", () => resolve({ status: response.statusCode ?? 0, headers: response.headers, body }));
      });
      sent.once("error", reject).end();
    });

  it("says how it is built until it is", async () => {
    expect(served.isBuilt()).to.equal(false);
    const { status, body } = await ask("/");
    expect(status).to.equal(404);
    expect(body).to.contain("`npm run docs`");
  });

  describe("once it is built", () => {
    before(() => {
      mkdirSync(path.join(folder, "guides"), { recursive: true });
      writeFileSync(path.join(home, "secret.html"), "a secret");
      writeFileSync(path.join(folder, "index.html"), "<script>start()</script><h1>Home</h1>");
      writeFileSync(path.join(folder, "guides/gate.html"), "<h1>Gate</h1>");
      writeFileSync(path.join(folder, "guides/app.js"), "start()");
      symlinkSync(path.join(home, "secret.html"), path.join(folder, "link.html"));
    });

    it("serves its pages on the port that was asked for", async () => {
      expect(served.url).to.equal(`http://127.0.0.1:${port}`);
      expect(served.isBuilt()).to.equal(true);
      expect((await ask("/")).body).to.contain("Home");
      expect((await ask("/guides/gate.html?from=home")).body).to.equal("<h1>Gate</h1>");
      expect((await ask("/guides/gate")).headers["content-type"]).to.equal("text/html; charset=utf-8");
      expect((await ask("/guides/app.js")).headers["content-type"]).to.equal("text/javascript; charset=utf-8");
    });

    it("answers 404 to what is not there, and gives nothing outside of its folder", async () => {
      const outside = ["/../secret.html", "/..%2fsecret.html", "/%2e%2e/secret.html", "/guides/../../secret.html"];
      const odd = ["/link.html", "/%00", "/%zz", "//secret.html", `${path.join("/", home)}/secret.html`, "/guides"];
      for (const target of ["/unknown.html", "/guides/", ...outside, ...odd]) {
        const { status, body } = await ask(target);
        expect(status, target).to.equal(404);
        expect(body, target).to.not.contain("secret");
      }
    });

    it("answers HEAD without a body, and no other method", async () => {
      const { status, headers, body } = await ask("/", "HEAD");
      expect([status, headers["content-length"], body]).to.deep.equal([200, "37", ""]);
      for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
        const refused = await ask("/", method);
        expect([refused.status, refused.headers.allow], method).to.deep.equal([405, "GET, HEAD"]);
      }
    });

    it("allows its own files and the page's own scripts alone", async () => {
      const policy = String((await ask("/")).headers["content-security-policy"]);
      expect(policy).to.contain("script-src 'self' 'sha256-");
      expect(policy).to.contain("default-src 'none'").and.contain("connect-src 'self'");
      const sources = policy.split(/[ ;]+/).filter((word) => /[.:/]/.test(word));
      expect(sources).to.deep.equal(["data:"]);
      expect((await ask("/guides/gate.html")).headers["content-security-policy"]).to.not.contain("sha256");
    });
  });
});
