/** Whether the Facilitator can do its work now. */
import type { Readiness } from "turnpike/facilitator";
import { Panel, Shown, Table } from "../parts";
import { useGet } from "../use";

export function System() {
  const readiness = useGet<Readiness>("/analytics/system");
  return (
    <Panel title="Health" note="Chain, reader, lanes and their gas money, as /readyz tells them.">
      <Shown of={readiness}>
        {({ ready, checks }) => (
          <>
            <p>
              <span class={ready ? "status good" : "status bad"}>{ready ? "ready" : "not ready"}</span>
            </p>
            <Table
              caption="Checks"
              empty="Nothing is checked."
              rows={checks}
              columns={[
                { title: "Check", cell: (row) => row.name },
                {
                  title: "State",
                  cell: (row) => <span class={row.ok ? "status good" : "status bad"}>{row.ok ? "ok" : "fails"}</span>,
                },
                { title: "Seen", cell: (row) => row.detail },
              ]}
            />
          </>
        )}
      </Shown>
    </Panel>
  );
}
