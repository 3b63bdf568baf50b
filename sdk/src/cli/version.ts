/** The version of this package; test/agreement compares it with package.json. */
export const VERSION = "0.1.0";

/** Whether the registry serves this version. While it does not, the name there is nobody's, or somebody else's. */
export const IS_PUBLISHED: boolean = false;
