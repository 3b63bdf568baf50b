/** What `npx turnpike mcp` runs, as a process that a test starts and kills. Its argument names the wallet's file. */
import { main } from "turnpike/mcp/wallet";

main(process.argv[2]).then((code) => process.exit(code));
