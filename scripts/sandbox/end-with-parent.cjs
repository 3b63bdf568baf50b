// Preloaded into a child process: ends it when its parent is gone, however the parent ended. Windows and POSIX both
// close the channel, so a killed parent leaves no orphan.
process.on("disconnect", () => process.exit());
process.channel?.unref();
