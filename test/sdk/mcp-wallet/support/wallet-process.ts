/** What `npx turnpike mcp` runs, as a process that a test starts and kills. */
import { main } from "turnpike/mcp/wallet";

main(process.argv.slice(2)).then((code) => process.exit(code));
