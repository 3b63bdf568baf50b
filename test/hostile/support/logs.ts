/** What a client prints while it works: everything that goes to standard output and error. */
export const CLIENT_LOGS = {
  async during(work: () => Promise<unknown>): Promise<string> {
    let text = "";
    const streams = [process.stdout, process.stderr] as const;
    const writes = streams.map((stream) => stream.write.bind(stream));
    for (const stream of streams) {
      stream.write = (chunk: string | Uint8Array) => {
        text += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("utf8");
        return true;
      };
    }
    try {
      await work();
    } finally {
      streams.forEach((stream, index) => {
        stream.write = writes[index] as typeof stream.write;
      });
    }
    return text;
  },
};
