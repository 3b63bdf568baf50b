/** Reports by chain and part whether a service on several chains can settle now. */
import type { Readiness } from "turnpike/facilitator";
import type { Network } from "turnpike/protocol";
import type { Chains } from "./chains";
import { MAX_DETAIL, notServed, readinessOf } from "./readiness";

/**
 * Reports on several chains. The service is ready while it serves any of them: a load balancer must not take the others
 * away with the one that fails.
 * @param network reports on this chain alone
 */
export function readinessOfChains(
  { database, states }: Pick<Chains, "database" | "states">,
  network?: Network,
): Readiness {
  const stored = database.health.health();
  const reports = states
    .filter(({ config }) => network === undefined || config.chainId === network.chainId)
    .map(({ config, running, stage }) => {
      const { name } = config.network;
      if (!running)
        return { ready: false, checks: [{ name: `${name}: start`, ok: false, detail: stage.slice(0, MAX_DETAIL) }] };
      const { ready, checks } = readinessOf(running.core);
      const own = checks.filter((check) => check.name !== "database");
      return { ready, checks: own.map((check) => ({ ...check, name: `${name}: ${check.name}` })) };
    });
  if (network && reports.length === 0) return notServed(network);
  const checks = [
    { name: "database", ok: stored.ok, detail: stored.detail },
    ...reports.flatMap((report) => report.checks),
  ];
  return { ready: stored.ok && reports.some(({ ready }) => ready), checks };
}
