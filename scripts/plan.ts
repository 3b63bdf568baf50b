export * from "turnpike/chain";
