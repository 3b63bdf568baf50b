/** The target of an attack test: paid routes through one framework, and a Facilitator that counts or holds its calls. */
import { ONE_TIME, type SmallFacilitator, startSmallFacilitator, testProvider } from "../../../support/gate";
import type { ADAPTERS, AdapterServer } from "./frameworks";

export interface Tricked {
  readonly server: AdapterServer;
  readonly facilitator: SmallFacilitator;
  /** how often a handler ran in this test */
  readonly served: number;
}

export interface TrickedOptions {
  /** each route's pricing */
  readonly routes: Readonly<Record<string, unknown>>;
  readonly publicUrl?: string;
}

export const PAID_ROUTE = { "/paid": ONE_TIME };

/** Registers the hooks that start and stop it. The returned fields are set only inside tests. */
export function tricked(start: (typeof ADAPTERS)[string], { routes, publicUrl }: TrickedOptions): Tricked {
  let facilitator: SmallFacilitator;
  let provider: ReturnType<typeof testProvider>;
  let server: AdapterServer;
  let served = 0;
  // Frameworks log refused requests here.
  const log = console.error;

  before(async () => {
    console.error = () => undefined;
    facilitator = await startSmallFacilitator();
    provider = testProvider(facilitator, publicUrl === undefined ? {} : { publicUrl });
    const handle = () => {
      served++;
      return { body: "content" };
    };
    server = await start(
      provider,
      Object.entries(routes).map(([path, pricing]) => ({ path, gate: { pricing } as never, handle })),
    );
  });
  beforeEach(() => {
    served = 0;
  });
  after(async () => {
    console.error = log;
    await server.stop();
    await provider.close();
    await facilitator.stop();
  });
  return {
    get server() {
      return server;
    },
    get facilitator() {
      return facilitator;
    },
    get served() {
      return served;
    },
  };
}
