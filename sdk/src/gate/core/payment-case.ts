/** One request to one route, and what is computed of it: each of it once. */
import { concatBytes, sha256, toHex, utf8ToBytes } from "../../protocol";
import type { GateContext } from "./context";
import { type GateRequest, type Origin, quotedMethod, resourceOfRequest } from "./request";
import type { Route } from "./route";

export class PaymentCase<R extends Route = Route> {
  readonly route: R;
  readonly request: GateRequest;
  /** in which its payment is judged */
  readonly context: GateContext;
  #origin: Origin;
  #resource: string | undefined;
  #quotedMethod: string | undefined;
  #bodyHash: string | undefined;
  #body: Uint8Array | undefined;

  /** @param known the same request, where its payment is judged in another context */
  constructor(context: GateContext, route: R, request: GateRequest, known?: PaymentCase<R>) {
    this.context = context;
    this.route = route;
    this.request = request;
    this.#origin = context.settings;
    if (!known) return;
    this.#origin = known.#origin;
    this.#resource = known.#resource;
    this.#quotedMethod = known.#quotedMethod;
    this.#bodyHash = known.#bodyHash;
    this.#body = known.#body;
  }

  in(context: GateContext): PaymentCase<R> {
    return context === this.context ? this : new PaymentCase(context, this.route, this.request, this);
  }

  /** What it asks for. @throws InvalidRequest for a target with two readings; ConfigError without a public address */
  get resource(): string {
    this.#resource ??= resourceOfRequest(this.request, this.#origin);
    return this.#resource;
  }

  /** Its method, as quotes bind it. */
  get quotedMethod(): string {
    this.#quotedMethod ??= quotedMethod(this.request, this.#origin);
    return this.#quotedMethod;
  }

  /** hex SHA-256, once `hashBody` has read it; undefined where the route binds no bodies */
  get bodyHash(): string | undefined {
    return this.#bodyHash;
  }

  /** the bytes that `bodyHash` covers */
  get body(): Uint8Array | undefined {
    return this.#body;
  }

  /** Hashes the body with its content type and encoding: the same bytes under another type may be another request. */
  async hashBody(): Promise<void> {
    if (!this.route.bindsBody || this.#bodyHash !== undefined) return;
    const { request } = this;
    const bytes = await request.body(this.route.maxBodyBytes);
    this.#body = bytes;
    const readAs = utf8ToBytes(
      `${request.header("content-type") ?? ""}\n${request.header("content-encoding") ?? ""}\n`,
    );
    this.#bodyHash = toHex(sha256(concatBytes(readAs, bytes)));
  }
}
