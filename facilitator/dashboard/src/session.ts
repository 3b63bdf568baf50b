/** Who is signed in: an API key, kept for this tab only. The key goes into a header, never into an address. */
const NAME = "turnpike-key";

export interface Session {
  readonly key: string;
}

export function savedSession(): Session | undefined {
  const key = sessionStorage.getItem(NAME);
  return key === null ? undefined : { key };
}

export function saveSession(session: Session): void {
  sessionStorage.setItem(NAME, session.key);
}

export function endSession(): void {
  sessionStorage.removeItem(NAME);
}
