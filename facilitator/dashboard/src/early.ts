/**
 * Asks for what the first view needs while the rest of the program still loads; runs in a script of its own. The program
 * takes the answers from `window`.
 */
import { isSandbox, savedSession } from "./session";

export interface Early {
  readonly key: string;
  readonly answers: Map<string, Promise<Response>>;
  /** what has arrived, by path */
  readonly data: Map<string, unknown>;
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
  const data = new Map<string, unknown>();
  const asked = async (path: string): Promise<Response> => {
    const response = await fetch(path, { headers });
    if (response.ok) data.set(path, await response.clone().json());
    return response;
  };
  const early: Early = { key: session.key, answers: new Map(paths.map((path) => [path, asked(path)])), data };
  Object.assign(window, { turnpikeEarly: early });
}
