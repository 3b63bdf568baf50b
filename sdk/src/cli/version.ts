/** The version of this package; test/agreement compares it with package.json. */
export const VERSION = "0.1.0";
