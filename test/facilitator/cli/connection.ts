import { expect } from "chai";
import { Client } from "pg";
import { examineConnection, isPooledByTransaction, tlsFailure } from "../../../facilitator/src/cli/doctor/connection";
import { Secret } from "../../../facilitator/src/config/setting";
import { connectStore, type Store } from "../../../facilitator/src/db/open";
import { startPostgres, type TestPostgres } from "../../support/postgres";

const PASSWORD = "correct-horse";

/** Each test has a role of its own, whose limit of connections it sets. */
describe("doctor on the connection to PostgreSQL", () => {
  let postgres: TestPostgres;
  let admin: Client;
  let url: URL;

  before(async () => {
    postgres = await startPostgres();
    admin = new Client({ connectionString: postgres.url });
    await admin.connect();
  });
  after(async () => {
    await admin?.query(`drop owned by doctor; drop role doctor`).catch(() => undefined);
    await admin?.end();
    await postgres?.stop();
  });
  beforeEach(async () => {
    await admin.query("drop role if exists doctor");
    await admin.query(`create role doctor login password '${PASSWORD}'`);
    url = new URL(await postgres.database());
    url.username = "doctor";
    url.password = PASSWORD;
  });

  /** @param shown what the URL says, where that differs from where the server is */
  async function examine(poolSize: number, shown = url.href) {
    const store: Store = await connectStore({ kind: "postgres", url: new Secret(url.href), poolSize: 2 });
    try {
      return await examineConnection({ kind: "postgres", url: new Secret(shown), poolSize }, store.db);
    } finally {
      await store.close();
    }
  }
  const elsewhere = (parameters: string): string => `postgres://doctor:${PASSWORD}@db.example/turnpike${parameters}`;

  it("HD12 accepts a server on this machine without TLS, and warns of one elsewhere, with the remedy", async () => {
    const [near] = await examine(10);
    expect(near).to.deep.equal({ level: "ok", subject: "DATABASE_URL", detail: "the server is on this machine" });
    const [far] = await examine(10, elsewhere(""));
    expect(far?.level).to.equal("warn");
    expect(far?.detail).to.contain("not encrypted");
    expect(far?.remedy).to.contain("sslmode=verify-full").and.to.contain("sslrootcert=FILE");
    expect(JSON.stringify(far)).not.to.contain(PASSWORD);
    const [posing] = await examine(10, elsewhere("?host=127.evil.example"));
    expect(posing?.level, "the parameter names the host, and this one only looks like a loopback address").to.equal(
      "warn",
    );
  });

  it("HD12 names the processes that fit into the server's limit, the role's and the database's", async () => {
    const poolOf = async (size: number) => (await examine(size))[1];
    expect(await poolOf(10)).to.include({ level: "ok", subject: "DATABASE_POOL_SIZE" });
    await admin.query("alter role doctor connection limit 26");
    const two = await poolOf(10);
    expect(two?.level).to.equal("ok");
    expect(two?.detail).to.equal(
      "a process opens up to 13 connections, and PostgreSQL grants 26: enough for 2 processes",
    );
    const one = await poolOf(11);
    expect(one).to.include({ level: "warn" });
    expect(one?.remedy).to.contain("max_connections");
    expect(await poolOf(24)).to.include({ level: "fail" });
    await admin.query(
      `alter role doctor connection limit -1; alter database ${url.pathname.slice(1)} connection limit 5`,
    );
    expect((await poolOf(10))?.level).to.equal("fail");
  });

  it("HD12 knows a pooler that gives each transaction another connection, and takes no server for one", async () => {
    expect((await examine(10)).map(({ detail }) => detail).join()).not.to.contain("pooler");
    const stores = await Promise.all(
      [1, 2].map(() => connectStore({ kind: "postgres", url: new Secret(url.href), poolSize: 2 })),
    );
    const [one, other] = stores.map(({ db }) => db) as [Store["db"], Store["db"]];
    // As PgBouncer in transaction mode: the server's process of the first goes to the transaction.
    let isTaken = false;
    const pooled = {
      connection: () => ({
        execute: (act: (db: Store["db"]) => unknown) =>
          act({ getExecutor: () => (isTaken ? other : one).getExecutor() } as Store["db"]),
      }),
      transaction: () => ({
        execute: (act: (db: Store["db"]) => unknown) => {
          isTaken = true;
          return act(one);
        },
      }),
    } as unknown as Store["db"];
    expect(await isPooledByTransaction(pooled)).to.equal(true);
    for (const store of stores) await store.close();
  });

  it("HD12 says that TLS is what failed: a server without it, a CA's file that is missing, a foreign certificate", async () => {
    const failureOf = async (parameters: string) => {
      const connecting = new URL(url.href + parameters);
      const database = { kind: "postgres", url: new Secret(connecting.href), poolSize: 2 } as const;
      try {
        const store = await connectStore(database);
        await store.db
          .selectFrom("migrations" as never)
          .execute()
          .finally(() => store.close());
      } catch (error) {
        return tlsFailure(error);
      }
      return undefined;
    };
    expect((await failureOf("?sslmode=verify-full"))?.detail).to.equal("the server does not support TLS");
    const missing = await failureOf("?sslmode=verify-full&sslrootcert=/nowhere/ca.crt");
    expect(missing?.detail).to.equal("the file /nowhere/ca.crt of its TLS parameters does not exist");
    const foreign = tlsFailure({ cause: { code: "DEPTH_ZERO_SELF_SIGNED_CERT", message: PASSWORD } });
    expect(foreign?.detail).to.contain("not accepted (DEPTH_ZERO_SELF_SIGNED_CERT)").and.not.to.contain(PASSWORD);
    expect(tlsFailure({ cause: { code: "ECONNREFUSED" } })).to.equal(undefined);
    expect(tlsFailure({ cause: { code: "ENOENT", syscall: "connect", path: "/run/.s.PGSQL.5432" } })).to.equal(
      undefined,
    );
  });
});
