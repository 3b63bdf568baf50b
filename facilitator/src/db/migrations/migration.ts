export interface Migration {
  /** file name without its ending; the order is that of this list */
  readonly id: string;
  readonly statements: readonly string[];
  /** the release before this one does not run on it: everything has to be stopped before; avoid it */
  readonly isBreaking?: true;
}
