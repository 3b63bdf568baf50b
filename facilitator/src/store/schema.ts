/** All tables as the query builder sees them. Hashes are lower-case hex text, addresses EIP-55 text, amounts decimal text, times unix seconds. */
import type { ApiKeysTable, ServiceSecretsTable, SpentChallengesTable } from "./tables/api-keys";
import type { AuditLogTable } from "./tables/audit-log";
import type { BlocksTable } from "./tables/blocks";
import type { RollupCostsTable } from "./tables/costs";
import type { CursorsTable } from "./tables/cursors";
import type { DatabaseProbesTable } from "./tables/database-probes";
import type { DebitRequestsTable } from "./tables/debit-requests";
import type { EventsTable } from "./tables/events";
import type { FailedPeriodsTable } from "./tables/failed-periods";
import type { FailedSpendsTable } from "./tables/failed-spends";
import type { GateReportsTable, GateResourcesTable, RollupFunnelTable } from "./tables/funnel";
import type { LaneReportsTable } from "./tables/lane-reports";
import type { LanesTable } from "./tables/lanes";
import type { PaymentGrantsTable } from "./tables/payment-grants";
import type { PaymentsTable } from "./tables/payments";
import type { OperatorsTable, PlansTable } from "./tables/plans";
import type { RenewalDueTable } from "./tables/renewal-due";
import type { RoleLeasesTable } from "./tables/role-leases";
import type {
  RollupCausesTable,
  RollupEventsTable,
  RollupPayersTable,
  RollupProviderPlansTable,
  RollupProviderSpansTable,
  RollupProvidersTable,
  RollupRecurringTable,
  RollupVolumeTable,
} from "./tables/rollups";
import type { SignedActsTable } from "./tables/signed-acts";
import type { StagedEventsTable } from "./tables/staged-events";
import type { RollupPlanStandingTable, RollupStandingTable } from "./tables/standing";
import type { AllowancesTable, DebitsTable, SubscriptionsTable } from "./tables/subscriptions";
import type { TransactionHashesTable, TransactionsTable } from "./tables/transactions";
import type { UndoTable } from "./tables/undo";
import type {
  WebhookAttemptsTable,
  WebhookDeliveriesTable,
  WebhookEndpointsTable,
  WebhookSecretsTable,
} from "./tables/webhooks";

export interface Tables {
  blocks: BlocksTable;
  cursors: CursorsTable;
  undo: UndoTable;
  lanes: LanesTable;
  lane_reports: LaneReportsTable;
  database_probes: DatabaseProbesTable;
  transactions: TransactionsTable;
  transaction_hashes: TransactionHashesTable;
  payments: PaymentsTable;
  payment_grants: PaymentGrantsTable;
  plans: PlansTable;
  operators: OperatorsTable;
  subscriptions: SubscriptionsTable;
  allowances: AllowancesTable;
  debits: DebitsTable;
  events: EventsTable;
  staged_events: StagedEventsTable;
  renewal_due: RenewalDueTable;
  role_leases: RoleLeasesTable;
  signed_acts: SignedActsTable;
  rollup_volume: RollupVolumeTable;
  rollup_provider_plans: RollupProviderPlansTable;
  rollup_payers: RollupPayersTable;
  rollup_events: RollupEventsTable;
  rollup_recurring: RollupRecurringTable;
  rollup_providers: RollupProvidersTable;
  rollup_provider_spans: RollupProviderSpansTable;
  rollup_standing: RollupStandingTable;
  rollup_plan_standing: RollupPlanStandingTable;
  failed_periods: FailedPeriodsTable;
  failed_spends: FailedSpendsTable;
  rollup_causes: RollupCausesTable;
  rollup_funnel: RollupFunnelTable;
  rollup_costs: RollupCostsTable;
  gate_reports: GateReportsTable;
  gate_resources: GateResourcesTable;
  service_secrets: ServiceSecretsTable;
  api_keys: ApiKeysTable;
  spent_challenges: SpentChallengesTable;
  webhook_endpoints: WebhookEndpointsTable;
  webhook_secrets: WebhookSecretsTable;
  webhook_deliveries: WebhookDeliveriesTable;
  webhook_attempts: WebhookAttemptsTable;
  debit_requests: DebitRequestsTable;
  audit_log: AuditLogTable;
}
