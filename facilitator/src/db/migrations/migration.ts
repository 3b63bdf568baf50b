import type { Kysely } from "kysely";

export interface Migration {
  /** file name without extension; migrations run in the order of MIGRATIONS */
  readonly id: string;
  readonly statements: readonly string[];
  /** Fills what SQL alone cannot, after the statements and in their transaction. */
  readonly fill?: (tx: Kysely<unknown>) => Promise<void>;
  /** whether the previous release cannot run on it, so that every process has to be stopped first; avoid this */
  readonly isBreaking?: true;
}
