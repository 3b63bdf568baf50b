export interface Migration {
  /** file name without extension; migrations run in the order of MIGRATIONS */
  readonly id: string;
  readonly statements: readonly string[];
  /** whether the previous release cannot run on it, so that every process has to be stopped first; avoid this */
  readonly isBreaking?: true;
}
