/** Describes what a paid tool needs of the MCP SDK, in one form for both of its releases. */
import type { Meta } from "../wire";

/** A notification of a server about one call. */
export interface CallNotification {
  readonly method: string;
  readonly params?: Readonly<Record<string, unknown>> | undefined;
}

export type Notify = (notification: CallNotification) => Promise<void>;

/** One call, as the SDK gives it to a tool's handler. */
export interface SdkCall<Context> {
  readonly requestId: unknown;
  readonly meta: Meta | undefined;
  /** aborted when the client cancels, or its connection ends */
  readonly signal: AbortSignal;
  /** the HTTP request that brought the call, where one did */
  readonly http: { readonly headers: Readonly<Record<string, unknown>>; readonly url?: URL } | undefined;
  /** whether the client can resume the response: its event store keeps the result */
  readonly isResumable: boolean;
  /** Sends a notification on the response of the call. */
  readonly notify: Notify;
  /** Returns what the handler gets: without credentials, and with this way to notify. */
  contextFor(notify: Notify): Context;
}

/** A release of the SDK. */
export interface Sdk<Context> {
  /** 2: of `@modelcontextprotocol/server`, whose tools may return any JSON, and `inputRequired` */
  readonly release: 1 | 2;
  readCall(context: Context): SdkCall<Context>;
}

/** A server of either release, as far as tools are registered and followed there. */
export interface ToolServer {
  readonly server: {
    readonly transport?: SdkTransport | undefined;
    connect(transport: SdkTransport): Promise<void>;
    readonly onerror?: ((error: Error) => void) | undefined;
  };
  registerTool(name: string, config: object, handler: (args: unknown, context: never) => unknown): RegisteredSdkTool;
}

/** A connection of either release. */
export interface SdkTransport {
  start(): Promise<void>;
  onmessage?: ((message: object, extra?: unknown) => void) | undefined;
}

/** A tool that the SDK has registered. */
export interface RegisteredSdkTool {
  /** Lists the tool again, and serves its calls. */
  enable(): void;
  /** Hides the tool, and refuses its calls. */
  disable(): void;
  /** Takes the tool off the server. */
  remove(): void;
}
