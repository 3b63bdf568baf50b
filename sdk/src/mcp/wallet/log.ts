/** Writes log lines to standard error: standard output belongs to the protocol. */

/** Writes one event as a line of JSON. */
export type Log = (event: string, facts?: object) => void;

export const logToStderr: Log = (event, facts = {}) => {
  const line = { at: new Date().toISOString(), event, ...facts };
  process.stderr.write(
    `${JSON.stringify(line, (_key, value) => (typeof value === "bigint" ? String(value) : value))}\n`,
  );
};
