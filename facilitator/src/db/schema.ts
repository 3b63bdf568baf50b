/**
 * All tables as typed for the query builder. Hashes are lower-case hex text, addresses EIP-55 text, amounts decimal
 * text, times unix seconds.
 */
import type {
  EndingsTable,
  FailedPeriodsTable,
  GateReportsTable,
  GateResourcesTable,
  PrunedPayersTable,
  PrunedPlansTable,
  PrunedTotalsTable,
  RollupCostsTable,
  RollupFunnelTable,
  RollupPayersTable,
  RollupPlanStandingTable,
  RollupPlansTable,
  RollupProvidersTable,
  RollupStandingTable,
  RollupTotalsTable,
} from "./tables/analytics";
import type { ArchiveFilesTable } from "./tables/archive";
import type { AuditLogTable } from "./tables/audit";
import type { ChainContractsTable } from "./tables/chain-contracts";
import type { CursorsTable, ReconcileDifferencesTable } from "./tables/cursors";
import type { ListingsTable } from "./tables/discovery";
import type { EventsTable, PrunedFeedsTable, StagedEventsTable } from "./tables/events";
import type { BlocksTable, UndoTable } from "./tables/indexer";
import type { DatabaseProbesTable, RoleLeasesTable } from "./tables/leases";
import type {
  AutomaticRefundsTable,
  FailedSpendsTable,
  PaymentGrantsTable,
  PaymentReservationsTable,
  PaymentsTable,
  RefundAccountsTable,
  RefundedTable,
  RefundsTable,
  WalletDeploymentsTable,
} from "./tables/payments";
import type { ApiKeysTable, LabelsTable, ServiceSecretsTable, SpentChallengesTable } from "./tables/providers";
import type {
  LaneReportsTable,
  LanesTable,
  PrunedCostsTable,
  TransactionHashesTable,
  TransactionsTable,
} from "./tables/relayer";
import type {
  AllowancesTable,
  DebitRequestsTable,
  DebitsTable,
  OperatorsTable,
  PlansTable,
  RenewalDueTable,
  SignedActsTable,
  SubscriptionEndsTable,
  SubscriptionsTable,
} from "./tables/subscriptions";
import type {
  WebhookAttemptsTable,
  WebhookDeliveriesTable,
  WebhookEndpointsTable,
  WebhookSecretsTable,
} from "./tables/webhooks";

export interface Tables {
  blocks: BlocksTable;
  cursors: CursorsTable;
  reconcile_differences: ReconcileDifferencesTable;
  chain_contracts: ChainContractsTable;
  undo: UndoTable;
  lanes: LanesTable;
  lane_reports: LaneReportsTable;
  database_probes: DatabaseProbesTable;
  transactions: TransactionsTable;
  transaction_hashes: TransactionHashesTable;
  pruned_costs: PrunedCostsTable;
  payments: PaymentsTable;
  payment_grants: PaymentGrantsTable;
  payment_reservations: PaymentReservationsTable;
  refunded: RefundedTable;
  refunds: RefundsTable;
  refund_accounts: RefundAccountsTable;
  automatic_refunds: AutomaticRefundsTable;
  plans: PlansTable;
  operators: OperatorsTable;
  subscriptions: SubscriptionsTable;
  allowances: AllowancesTable;
  debits: DebitsTable;
  events: EventsTable;
  staged_events: StagedEventsTable;
  pruned_feeds: PrunedFeedsTable;
  pruned_totals: PrunedTotalsTable;
  pruned_payers: PrunedPayersTable;
  pruned_plans: PrunedPlansTable;
  archive_files: ArchiveFilesTable;
  renewal_due: RenewalDueTable;
  subscription_ends: SubscriptionEndsTable;
  role_leases: RoleLeasesTable;
  signed_acts: SignedActsTable;
  rollup_totals: RollupTotalsTable;
  rollup_plans: RollupPlansTable;
  rollup_providers: RollupProvidersTable;
  rollup_payers: RollupPayersTable;
  rollup_standing: RollupStandingTable;
  rollup_plan_standing: RollupPlanStandingTable;
  failed_periods: FailedPeriodsTable;
  endings: EndingsTable;
  failed_spends: FailedSpendsTable;
  wallet_deployments: WalletDeploymentsTable;
  rollup_funnel: RollupFunnelTable;
  rollup_costs: RollupCostsTable;
  gate_reports: GateReportsTable;
  gate_resources: GateResourcesTable;
  service_secrets: ServiceSecretsTable;
  labels: LabelsTable;
  api_keys: ApiKeysTable;
  spent_challenges: SpentChallengesTable;
  webhook_endpoints: WebhookEndpointsTable;
  webhook_secrets: WebhookSecretsTable;
  webhook_deliveries: WebhookDeliveriesTable;
  webhook_attempts: WebhookAttemptsTable;
  debit_requests: DebitRequestsTable;
  audit_log: AuditLogTable;
  listings: ListingsTable;
}
