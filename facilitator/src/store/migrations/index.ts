/** All migrations in order. Append only: what has run somewhere is never edited. */
import { initial } from "./001-initial";
import { signedActs } from "./100-signed-acts";
import { rollups } from "./200-rollups";

export interface Migration {
  /** file name without its ending; the order is that of this list */
  readonly id: string;
  readonly statements: readonly string[];
}

export const MIGRATIONS: readonly Migration[] = [initial, signedActs, rollups];
