/**
 * Asks for what the first view needs while the rest of the program still loads; runs in a script of its own. The program
 * takes the answers from `window`.
 */
import { isSandbox, savedSession } from "./session";

export interface Early {
  readonly key: string;
  readonly answers: Map<string, Promise<Response>>;
}

const session = savedSession();
if (session) {
  const headers = { authorization: `Bearer ${session.key}` };
  const isOverview = location.pathname === "/" && /^(#\/?)?$/.test(location.hash);
  const paths = [
    "/keys/current",
    "/supported",
    ...(isOverview ? [`/analytics/overview?days=${isSandbox ? 90 : 30}`] : []),
  ];
  const early: Early = { key: session.key, answers: new Map(paths.map((path) => [path, fetch(path, { headers })])) };
  Object.assign(window, { turnpikeEarly: early });
}
