// Loaded before the program (NODE_OPTIONS=-r ...): from SIGUSR2 on, its event loop runs for a moment between long blocks.
const BLOCK_MS = 1_500;
const FREE_MS = 20;

process.on("SIGUSR2", () => {
  setInterval(() => {
    const untilMs = performance.now() + BLOCK_MS;
    while (performance.now() < untilMs);
  }, FREE_MS);
});
