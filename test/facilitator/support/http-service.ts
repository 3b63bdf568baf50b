/** One service on one chain for all the tests of a file, and requests to it with or without an API key. */
import { type Service, type ServiceWorld, startServiceWorld } from "./service";

export const JSON_TYPE = { "content-type": "application/json" };

export interface HttpService {
  readonly world: ServiceWorld;
  readonly service: Service;
  /** In the place of the one before. */
  restart(settings: Readonly<Record<string, string>>): Promise<void>;
  post(path: string, body: BodyInit, headers?: Record<string, string>): Promise<Response>;
  /** A JSON exchange; by default POST with a body, GET without. */
  call(path: string, call?: { key?: string; body?: unknown; method?: string }): Promise<Response>;
}

/** Registers the hooks that start and stop it; what it gives is there in tests only. */
export function useService(settings: Readonly<Record<string, string>> = {}): HttpService {
  let world: ServiceWorld;
  let service: Service;
  const fixed = { RENEWALS: "false", ...settings };
  before(async () => {
    world = await startServiceWorld();
    service = await world.service(fixed);
  });
  after(() => world?.stop());
  return {
    get world() {
      return world;
    },
    get service() {
      return service;
    },
    async restart(more) {
      await service.stop();
      service = await world.service({ ...fixed, ...more });
    },
    post: (path, body, headers = JSON_TYPE) => fetch(service.url + path, { method: "POST", body, headers }),
    call: (path, { key, body, method = body === undefined ? "GET" : "POST" } = {}) =>
      fetch(service.url + path, {
        method,
        headers: { ...(body !== undefined && JSON_TYPE), ...(key !== undefined && { authorization: `Bearer ${key}` }) },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      }),
  };
}
