// Preloaded into a child process: ends it when its parent is gone, however the parent ended. Windows and POSIX close the
// channel alike, so a parent that was killed leaves no orphan.
process.on("disconnect", () => process.exit());
process.channel?.unref();
