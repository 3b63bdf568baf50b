/** Settings of tracing, by their standard names. The OpenTelemetry SDK reads further ones itself. */
import { z } from "zod";
import { flag, optional, setting, url } from "./setting";

export const TRACING = {
  otlpEndpoint: optional({
    env: "OTEL_EXPORTER_OTLP_ENDPOINT",
    about: "Base URL of an OpenTelemetry collector that gets traces by OTLP over HTTP. Unset: nothing is traced.",
    schema: url,
  }),
  otlpTracesEndpoint: optional({
    env: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    about: "Whole URL that traces are posted to, in place of OTEL_EXPORTER_OTLP_ENDPOINT with /v1/traces.",
    schema: url,
  }),
  otlpProtocol: setting({
    env: "OTEL_EXPORTER_OTLP_PROTOCOL",
    about: "http/protobuf or http/json.",
    fallback: "http/protobuf",
    schema: z.enum(["http/protobuf", "http/json"], { error: "must be http/protobuf or http/json: grpc is not served" }),
  }),
  otelDisabled: setting({
    env: "OTEL_SDK_DISABLED",
    about: "Whether nothing is traced, whatever the other settings say.",
    fallback: "false",
    schema: flag,
  }),
} as const;
