/** The reason of an error when this process stops: what the request began may be stored, and another process goes on. */
export const STOPPING = "stopping";
