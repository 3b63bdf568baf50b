/** Judges the connection to PostgreSQL: whether others can read or forge it, and whether there are enough of them. */
import { sql } from "kysely";
import type { Finding } from "../../chain/contract-checks";
import type { DatabaseConfig } from "../../config";
import type { Db } from "../../db/open";

const SUBJECT = "DATABASE_URL";

const VERIFIED =
  "add ?sslmode=verify-full to it, and &sslrootcert=FILE when a CA of your own signs the server's certificate";

/** Each process has these besides its pool: one for notifications, and two for leases. */
const MORE_PER_PROCESS = 3;

/** One is replaced while the other serves. */
const PROCESSES = 2;

/** What TLS reports when it does not accept the server's certificate. */
const CERTIFICATE = /CERT|SIGNATURE|ISSUER|ERR_TLS/;

type PostgresConfig = DatabaseConfig & { readonly kind: "postgres" };

/** @returns a finding when a connection failed because of TLS */
export function tlsFailure(error: unknown): Finding | undefined {
  const cause = (error as { cause?: unknown } | null)?.cause ?? error;
  const { code, path, message } = (cause ?? {}) as { code?: unknown; path?: unknown; message?: unknown };
  const fault = (detail: string, remedy: string): Finding => ({ level: "fail", subject: SUBJECT, detail, remedy });
  // The driver reads the files that the URL names. A socket's path is no file of it.
  if (code === "ENOENT" && typeof path === "string" && (cause as { syscall?: unknown }).syscall === "open")
    return fault(`the file ${path} of its TLS parameters does not exist`, "correct sslrootcert, sslcert or sslkey");
  if (typeof code === "string" && CERTIFICATE.test(code))
    return fault(`the server's certificate is not accepted (${code})`, `correct the host name, or ${VERIFIED}`);
  if (typeof message === "string" && /does not support SSL/.test(message))
    return fault("the server does not support TLS", "set ssl = on and a certificate in postgresql.conf");
  return undefined;
}

export async function examineConnection({ url, poolSize }: PostgresConfig, db: Db): Promise<Finding[]> {
  return [
    await tlsFinding(new URL(url.reveal()), db),
    await poolFinding(poolSize, db),
    ...((await isPooledByTransaction(db)) ? [BY_TRANSACTION] : []),
  ];
}

const BY_TRANSACTION: Finding = {
  level: "fail",
  subject: SUBJECT,
  detail: "a pooler gives each transaction another connection of the server: notifications and locks are lost",
  remedy: "set pool_mode = session in PgBouncer, or name PostgreSQL itself",
};

/** Asks for the server's process, lets another transaction take that away, and asks again. */
export function isPooledByTransaction(db: Pick<Db, "connection" | "transaction">): Promise<boolean> {
  return db.connection().execute(async (one) => {
    const before = await processOf(one);
    return db.transaction().execute(async (other) => {
      await processOf(other);
      return (await processOf(one)) !== before;
    });
  });
}

async function processOf(db: Db): Promise<number | undefined> {
  const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(db);
  return rows[0]?.pid;
}

async function tlsFinding(url: URL, db: Db): Promise<Finding> {
  const { rows } = await sql<{ ssl: boolean; version: string | null }>`
    select ssl, version from pg_stat_ssl where pid = pg_backend_pid()`.execute(db);
  const { ssl = false, version = null } = rows[0] ?? {};
  const finding = { subject: SUBJECT };
  if (ssl && isVerified(url)) return { ...finding, level: "ok", detail: `${version}, with the certificate verified` };
  if (isThisMachine(url)) return { ...finding, level: "ok", detail: "the server is on this machine" };
  const detail = ssl
    ? `${version}, but nobody verifies the server's certificate: another server can pass for it`
    : "the connection is not encrypted: the network can read payments' signatures and the password's exchange";
  return { ...finding, level: "warn", detail, remedy: VERIFIED };
}

/** The driver verifies certificate and host name in every mode but `no-verify`, unless it is to do as libpq does. */
function isVerified({ searchParams }: URL): boolean {
  const mode = searchParams.get("sslmode");
  return searchParams.get("uselibpqcompat") === "true" ? mode === "verify-full" : mode !== "no-verify";
}

/** Also of a socket: its folder is the host. */
function isThisMachine({ hostname, searchParams }: URL): boolean {
  const host = searchParams.get("host") ?? decodeURIComponent(hostname);
  return (
    host === "" ||
    host.startsWith("/") ||
    host === "localhost" ||
    host === "[::1]" ||
    /^127(?:\.\d{1,3}){3}$/.test(host)
  );
}

async function poolFinding(poolSize: number, db: Db): Promise<Finding> {
  // -1: no limit of its own. Some connections are reserved for superusers.
  const { rows } = await sql<{ available: number }>`
    select least(
      current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
      (select case when rolconnlimit < 0 then 2147483647 else rolconnlimit end from pg_roles where rolname = current_user),
      (select case when datconnlimit < 0 then 2147483647 else datconnlimit end from pg_database
        where datname = current_database())) as available`.execute(db);
  const available = rows[0]?.available ?? 0;
  const each = poolSize + MORE_PER_PROCESS;
  const fitting = Math.floor(available / each);
  const subject = "DATABASE_POOL_SIZE";
  const detail = `a process opens up to ${each} connections, and PostgreSQL grants ${available}: enough for ${fitting} process${fitting === 1 ? "" : "es"}`;
  if (fitting >= PROCESSES) return { level: "ok", subject, detail };
  const remedy = "lower it, or raise max_connections, or the connection limit of the role or database";
  return { level: fitting === 0 ? "fail" : "warn", subject, detail, remedy };
}
