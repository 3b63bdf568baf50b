import { z } from "zod";
import { optional, Secret, setting, whole } from "./setting";

export const DATABASE = {
  databaseUrl: optional({
    env: "DATABASE_URL",
    about: "PostgreSQL connection URL; several processes may share it. Absent: the embedded database in PGLITE_DIR.",
    schema: z
      .string()
      .regex(/^postgres(ql)?:\/\//, "must be a postgres:// URL")
      .transform((value) => new Secret(value)),
  }),
  pgliteDir: setting({
    env: "PGLITE_DIR",
    about: "Folder of the embedded database; one process at a time.",
    fallback: ".turnpike/db",
    schema: z.string().min(1),
  }),
  pgliteLockMs: setting({
    env: "PGLITE_LOCK_MS",
    about:
      "Milliseconds for which a start watches the lock of PGLITE_DIR; it takes it over when no process has refreshed it.",
    fallback: "10000",
    danger: "Too short, and a process that merely stalls loses its database to another; it ends itself then.",
    schema: whole(2_000, 600_000),
  }),
  databasePoolSize: setting({
    env: "DATABASE_POOL_SIZE",
    about: "PostgreSQL connections of this process; it opens three more, for notifications and leases.",
    fallback: "10",
    schema: whole(2, 200),
  }),
  databaseTimeoutMs: setting({
    env: "DATABASE_TIMEOUT_MS",
    about:
      "Milliseconds until a statement that PostgreSQL does not answer is given up; migrations and commands wait longer.",
    fallback: "60000",
    danger: "Too short, and work that is merely slow is done again and again.",
    schema: whole(1_000, 3_600_000),
  }),
  retainTransactionsDays: setting({
    env: "RETAIN_TRANSACTIONS_DAYS",
    about:
      "Days for which the relayer's final transactions are kept: afterwards those of payments are deleted, and the others lose their calldata and signed bytes. 0 keeps all.",
    fallback: "30",
    danger: "The cost of an older payment's transaction is no longer shown.",
    schema: whole(0, 36_500).refine((days) => days === 0 || days >= 2, "must be 0, or at least 2"),
  }),
  retainEventsDays: setting({
    env: "RETAIN_EVENTS_DAYS",
    about:
      "Days for which events of settled payments and refunds are kept in GET /events, and at least until their transaction and deliveries are deleted. 0 keeps all.",
    fallback: "90",
    danger:
      "A reader that stops for longer gets EventsDeleted and has to list payments; an older event is not sent again.",
    schema: whole(0, 36_500).refine((days) => days === 0 || days >= 2, "must be 0, or at least 2"),
  }),
  archiveDir: optional({
    env: "ARCHIVE_DIR",
    about:
      "Folder that old events are written to before they are deleted: gzip of JSON lines, with checksums. Absent: they are deleted without. Processes with the role indexer need the same folder.",
    danger: "While it cannot be written, nothing is deleted and the database grows.",
    schema: z.string().min(1),
  }),
} as const;
