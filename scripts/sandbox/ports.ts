/** Selects the ports of the sandbox: a port that the user named or none, a default one or any free one. */
import { freePort } from "./free-port";
import { type SandboxOptions, type Server, WrongOption } from "./options";

/** @throws WrongOption when a port that the user named is in use */
export async function choosePorts(
  ports: SandboxOptions["ports"],
  say: (line: string) => void,
): Promise<Record<Server, number>> {
  const chosen: [Server, number][] = [];
  for (const [server, { number, isRequired }] of Object.entries(ports) as [Server, SandboxOptions["ports"][Server]][]) {
    const free = await freePort(number);
    if (number !== 0 && free !== number) {
      if (isRequired)
        throw new WrongOption(`Port ${number} for the ${server} is in use. Name another one with --${server}-port.`);
      say(`Port ${number} is in use: the ${server} takes ${free}. Name ports with --port.`);
    }
    chosen.push([server, free]);
  }
  return Object.fromEntries(chosen) as Record<Server, number>;
}
