/**
 * Describes how payments travel in tool calls of the Model Context Protocol: the keys of `_meta`, the forms of an ask, a
 * payment and a receipt, and the identity of one call. Pure: both sides use it.
 */
export * from "./ask";
export * from "./call";
export * from "./meta";
