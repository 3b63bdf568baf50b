// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Auth, Debit, NextTerms, Signup, Status, Terms} from "./TurnpikeTypes.sol";

/// @title Plans, subscriptions and allowances that never hold a token
/// @notice Every payment is one `transferFrom`, straight from the subscriber to the plan's payee. There is no owner, no
/// upgrade, no pause and no fee. All times are unix seconds of the block; all amounts are base units of the plan's
/// token.
/// @dev A subscription is known here by its idHash alone, `keccak256(abi.encode(subscriber, keccak256(secret)))`: what
/// is on chain is public, so it must not open a gate. A used idHash is never free again.
///
/// Each act of a subscriber is its own call, for which the signature is left empty (what is given is ignored), or
/// anyone's call that brings its signature (EIP-712, domain "Turnpike" version "1"; a key's 65 bytes with low s and v
/// 27 or 28, or ERC-1271 within 500,000 gas when the subscriber has code; no ERC-6492). Every act of the subscriber,
/// signed or not, raises the record's version, which a signature names: so each is good for one act, and void after any
/// other. At version 65,535 only `cancel` and `rekey` are left. Failures that all of them share: `NotSubscriber` for
/// another caller with deadline 0 (`subscribe` and `void`: `SignatureExpired`), `StaleVersion`, `SignatureExpired` from
/// the second after the deadline on, `InvalidSignature`.
interface ITurnpike {
    // ------------------------------------------------------------------ events: enough to rebuild every record

    /// @notice A plan exists; its provider is its first operator (an `OperatorSet` follows).
    event PlanCreated(
        bytes32 indexed planId,
        address indexed provider,
        uint32 index,
        Terms terms,
        bytes32 salt,
        string metadata
    );

    /// @notice A plan accepts no new subscription; `successor` zero: none named.
    event PlanClosed(bytes32 indexed planId, bytes32 successor);

    /// @notice Every subscription on the plan ends with the period that is paid; before that, a `PlanClosed` if the
    /// plan was open.
    event PlanEnded(bytes32 indexed planId);

    /// @notice What an account may do on the plan from now on; see `setOperator`. 0: nothing.
    event OperatorSet(bytes32 indexed planId, address indexed account, uint8 rights);

    /// @notice The payee may become another from `effectiveAt` (unix seconds, inclusive) on. `payTo` zero: withdrawn.
    /// @dev Payees, providers and subscribers should watch this one. `by` is the provider or the payee.
    event PayToProposed(bytes32 indexed planId, address payTo, uint40 effectiveAt, address by);

    /// @notice Every charge and debit from now on goes to `payTo`.
    event PayToMoved(bytes32 indexed planId, address payTo);

    /// @notice `nextProvider` may take over the plan; zero: nobody.
    event PlanOffered(bytes32 indexed planId, address nextProvider);

    /// @notice The plan has another provider; a `PayToMoved` to it follows, and an `OperatorSet` for the old and for
    /// the new one.
    event PlanTransferred(bytes32 indexed planId, address indexed provider);

    /// @notice A record is new at version 0, and its first period was charged. `maxOverage` 0: no allowance was made.
    event Subscribed(
        bytes32 indexed idHash,
        bytes32 indexed planId,
        address indexed subscriber,
        uint256 maxOverage,
        uint40 paidThrough
    );

    /// @notice The first period costs `firstAmount` by a voucher of `signer`; a `Subscribed` follows.
    event VoucherUsed(bytes32 indexed idHash, address indexed signer, uint256 firstAmount);

    /// @notice The idHash can never be used: a signup that was signed for it is invalid.
    event Voided(bytes32 indexed idHash, address indexed subscriber);

    /// @notice Periods start on this day of the month from now on, or on its last; 0: they are counted in seconds.
    event Anchored(bytes32 indexed idHash, uint8 day);

    /// @notice What happens at the next boundary, as a whole; the version rose. At a signup this comes before its
    /// `Subscribed`, and no version rises. 0: nothing. A change that is scheduled is dropped by `Cancelled` and
    /// `PlanChanged`, and both go along with `Rekeyed`.
    event NextSet(bytes32 indexed idHash, uint40 until, bytes32 nextPlanId);

    /// @notice The scheduled change applies to the period that the next `Renewed` or `Resumed` charges.
    event ChangeMade(bytes32 indexed idHash, bytes32 indexed newPlanId);

    /// @notice One period at the plan's price was charged; a new cycle of the allowance starts.
    event Renewed(bytes32 indexed idHash, uint40 paidThrough);

    /// @notice An item of `renewBatch` failed and did nothing; `reason` is the selector of its error.
    /// @dev Anyone can have this emitted by trying what cannot succeed: count only what one's own transactions say.
    event RenewalFailed(bytes32 indexed idHash, bytes4 reason);

    /// @notice Service and collection have stopped; the version rose.
    event Paused(bytes32 indexed idHash);

    /// @notice The subscription goes on; `charged` is 0 when the paid period had not ended.
    event Resumed(bytes32 indexed idHash, uint256 charged, uint40 paidThrough);

    /// @notice `atPeriodEnd` false: over now, also when the period's end was asked for but had come. `by` is the
    /// subscriber (the version rose, also with a signature that another account submits) or the provider (it did not).
    event Cancelled(bytes32 indexed idHash, bool atPeriodEnd, address by);

    /// @notice The cap of every cycle from the current one on, in base units; the version rose.
    event MaxOverageSet(bytes32 indexed idHash, uint256 cap);

    /// @notice The record is on another plan; its allowance has this cap with nothing spent, and keeps its debit count.
    event PlanChanged(
        bytes32 indexed idHash,
        bytes32 indexed newPlanId,
        uint256 maxOverage,
        uint256 charged,
        uint40 paidThrough
    );

    /// @notice The record continues under `newIdHash` at version 0 with its allowance; the old one is cancelled.
    event Rekeyed(bytes32 indexed idHash, bytes32 indexed newIdHash);

    /// @notice `amount` was paid under the allowance, in the cycle that ends at the record's paidThrough.
    event Debited(bytes32 indexed idHash, uint256 amount, uint256 index);

    /// @notice An item of `debitBatch` failed and did nothing; `reason` is the selector of its error.
    /// @dev Anyone can have this emitted, for any idHash: count only what one's own transactions say.
    event DebitFailed(bytes32 indexed idHash, uint256 amount, uint256 index, bytes4 reason);

    // ------------------------------------------------------------------ errors: plans

    /// @notice Thrown when a plan's terms break a rule of `createPlan`; `field` names the first that does.
    /// @dev Remedy: correct that field.
    error InvalidTerms(string field);

    /// @notice Thrown when no plan has this id.
    /// @dev Remedy: check the id and the chain. The id covers all terms: a single other digit is another plan.
    error UnknownPlan(bytes32 planId);

    /// @notice Thrown when the same provider has created the same terms with the same salt and metadata before.
    /// @dev Remedy: use that plan, or another salt.
    error PlanExists(bytes32 planId);

    /// @notice Thrown when a deprecated plan would gain a record or a payment back into it, or be deprecated again.
    /// @dev Remedy: `getPlan` names the successor, if there is one.
    error PlanDeprecated(bytes32 planId);

    /// @notice Thrown when a stopped plan would charge, gain a record or be stopped again; and when a change is to be
    /// scheduled away from it, which could never be made.
    /// @dev Remedy: `changePlan` to another plan while the period is paid; then, subscribe to another plan.
    error PlanStopped(bytes32 planId);

    /// @notice Thrown when a named successor is unknown, another provider's, in another token, deprecated, or the plan
    /// itself.
    /// @dev Remedy: name a live plan of the same provider and token, or none.
    error InvalidSuccessor(bytes32 planId, bytes32 successor);

    /// @notice Thrown when a plan change leads to the same plan, or to another provider or token.
    /// @dev Remedy: cancel, and subscribe to the other plan.
    error PlanMismatch(bytes32 planId, bytes32 newPlanId);

    /// @notice Thrown when the terms that a `setNext` shows are not the plan's; `field` names the first that differs.
    /// @dev Remedy: read the plan, check that the change is still wanted, sign again.
    error TermsDiffer(bytes32 planId, string field);

    /// @notice Thrown when the caller is not the plan's provider; nor its payee, where that one may decide, too; nor
    /// who is offered the plan, where it is accepted.
    error NotProvider(bytes32 planId, address caller);

    /// @notice Thrown when no other payee is proposed for the plan.
    error NotProposed(bytes32 planId);

    /// @notice Thrown when a plan is to be handed over whose payee is not its provider.
    /// @dev Remedy: `proposePayTo` the provider, by both or seven days before.
    error PayeeApart(bytes32 planId, address payTo);

    /// @notice Thrown when a proposed payee is to be applied too soon.
    /// @dev Remedy: retry at `effectiveAt` (unix seconds, inclusive), if it has not been withdrawn. Or have the other
    /// of provider and payee propose the same.
    error TooEarly(bytes32 planId, uint256 effectiveAt);

    /// @notice Thrown when a voucher's signer has no VOUCHER right on the plan, or its first amount is above the price,
    /// or its first period is what the plan has without one.
    /// @dev Remedy: ask the provider for another voucher, or subscribe without one.
    error InvalidVoucher(bytes32 planId, address signer);

    /// @notice Thrown when a voucher's first period is longer than 366 days.
    /// @dev Remedy: ask the provider for a voucher with at most `max` seconds.
    error FirstIntervalTooLong(uint256 firstInterval, uint256 max);

    /// @notice Thrown when the caller may not debit on the plan.
    /// @dev Remedy: the provider calls `setOperator`.
    error NotOperator(bytes32 planId, address caller);

    // ------------------------------------------------------------------ errors: subscriptions

    /// @notice Thrown when the subscriber has used this idHash before, be it cancelled or rekeyed away since.
    /// @dev Remedy: draw a fresh secret. After a signup of one's own: it has succeeded already.
    error IdHashUsed(bytes32 idHash);

    /// @notice Thrown when the record's status does not allow the act. NONE: there is no such record.
    /// @dev Remedy: by status: PAST_DUE renew, EXPIRED or PAUSED resume, NONE or CANCELLED subscribe.
    error SubscriptionNotActive(bytes32 idHash, Status status);

    /// @notice Thrown when a subscription that ends with its period would be renewed or moved to another plan.
    /// @dev Remedy: none; let it end, and subscribe again.
    error Ending(bytes32 idHash);

    /// @notice Thrown when a plan change comes at or after the subscriber's own end; and when an end is to be set that
    /// is not in the future.
    /// @dev Remedy: a later end, or none.
    error UntilReached(bytes32 idHash, uint256 until);

    /// @notice Thrown when a period would end after the last time that a record can hold, in the year 4147.
    error PaidThroughTooLarge(uint256 paidThrough, uint256 max);

    /// @notice Thrown when `resume` finds a subscription that is neither paused nor expired.
    /// @dev Remedy: none needed when ACTIVE, renew when PAST_DUE, subscribe again when CANCELLED.
    error NothingToResume(bytes32 idHash, Status status);

    /// @notice Thrown when a renewal is attempted before the paid period has ended.
    /// @dev Remedy: retry at `dueAt` (unix seconds, inclusive), if it has not been collected meanwhile.
    error RenewalNotDue(bytes32 idHash, uint256 dueAt);

    /// @notice Thrown when a pause or a plan change is attempted while a period is owed, from `dueAt` (inclusive) on.
    /// @dev Remedy: renew first; `multicall` does both at once.
    error RenewalDue(bytes32 idHash, uint256 dueAt);

    /// @notice Thrown when the caller is not the subscriber and brings no signature; and when a provider would cancel
    /// at once.
    /// @dev Remedy: call from the subscriber's account, or bring its signature. A provider: at the period's end.
    error NotSubscriber(bytes32 idHash, address caller);

    /// @notice Thrown when the credit for the rest of the period is more than the new plan's price.
    /// @dev Remedy: `setNext` makes the change at the period's end. Or wait: credit falls with time.
    error CreditExceedsPrice(uint256 credit, uint256 price);

    /// @notice Thrown when a resumption or a plan change would charge more than the subscriber allows.
    /// @dev Remedy: ask the subscriber again, with the charge.
    error ChargeAboveMax(uint256 charge, uint256 maxCharge);

    // ------------------------------------------------------------------ errors: signatures

    /// @notice Thrown when a signature names another version than the record's: it was used, or another act came first.
    /// @dev Remedy: read the record, check that the act is still wanted, sign again with `current`.
    error StaleVersion(bytes32 idHash, uint16 given, uint16 current);

    /// @notice Thrown when the record has gone through all versions.
    /// @dev Remedy: `rekey`; the new record starts at version 0.
    error VersionExhausted(bytes32 idHash);

    /// @notice Thrown from the second after `deadline` on.
    /// @dev Remedy: sign again.
    error SignatureExpired(uint256 deadline);

    /// @notice Thrown when a signature is not `signer`'s over exactly these values, chain and contract.
    /// @dev Remedy: compare domain, types and values with those that were signed.
    error InvalidSignature(address signer);

    // ------------------------------------------------------------------ errors: allowances

    /// @notice Thrown when a cap does not fit its field of 88 bits (at 6 decimals, 300 quintillion units).
    error CapTooLarge(uint256 cap, uint256 max);

    /// @notice Thrown when a debit is for nothing.
    error ZeroAmount();

    /// @notice Thrown when `index` is not the number of debits so far.
    /// @dev After a retry it means success only if the `Debited` log at that index is from one's own transaction.
    /// Remedy otherwise: read `debits` again, and debit at that index.
    error StaleDebit(bytes32 idHash, uint256 index, uint256 current);

    /// @notice Thrown when a debit is for more than what is left of the cap in this cycle.
    /// @dev Remedy: the subscriber raises the cap or moves to a larger plan; or the next renewal resets it.
    error AllowanceExhausted(bytes32 idHash, uint256 requested, uint256 remaining);

    // ------------------------------------------------------------------ errors: payment

    /// @notice Thrown when the token did not move `required` and the subscriber holds less.
    /// @dev Remedy: the subscriber tops up; then retry. Nothing is owed meanwhile, and nothing was recorded.
    error InsufficientFunds(address subscriber, address token, uint256 required, uint256 available);

    /// @notice Thrown when the token did not move `required` and Turnpike is approved for less.
    /// @dev Remedy: the subscriber approves more (or signs a permit); then retry.
    error InsufficientApproval(address subscriber, address token, uint256 required, uint256 available);

    /// @notice Thrown when the token did not move `amount` for another cause: paused, a party blocklisted, more than
    /// 300,000 gas, or an answer that is neither nothing nor one word 1. As a `reason`: also when an item ran out of
    /// gas.
    /// @dev Remedy: retry later; look at the token.
    error TransferFailed(address token, address from, address to, uint256 amount);

    /// @notice Thrown when a batch has too little gas left to give its next item the full allowance; nothing happened.
    /// @dev Remedy: a higher gas limit, or a smaller batch.
    error InsufficientGas(uint256 available, uint256 required);

    /// @notice Thrown when another account than Turnpike itself calls the frame of a batch item.
    error OnlySelf(address caller);

    // ------------------------------------------------------------------ plans

    /// @notice Creates a plan with the caller as provider, who has all rights on it.
    /// @dev Rules: `token` has code, is not this contract and no ERC-721; `amount` > 0; `interval` > 0, in months at
    /// most 1,200; `grace` < `interval`, in months < 28 days for each; `payTo` is neither zero nor this contract.
    ///
    /// What the token must guarantee, for what is written here to hold:
    /// - `transferFrom` moves exactly `amount` or fails, within 300,000 gas, and answers with nothing or one word 1. A
    ///   token that charges a fee on transfers pays the provider less than the price; nobody else is affected.
    /// - Balances and approvals change by their owners' acts alone. A token whose issuer can seize, pause or block can
    ///   make charges fail; they can be retried.
    /// - For a signup with a permit: EIP-2612; for accounts with code also its form with the signature as bytes.
    ///
    /// A token that breaks this harms only accounts that agreed to be paid, or to pay, in it.
    /// @param salt distinguishes plans with equal terms.
    /// @param metadata short JSON for people (a name, what overage costs); emitted, covered by the id, not stored.
    /// @return planId `keccak256(abi.encode(block.chainid, turnpike, provider, terms, salt, keccak256(metadata)))`: the
    /// terms prove themselves, with the first payee.
    function createPlan(Terms calldata terms, bytes32 salt, string calldata metadata) external returns (bytes32 planId);

    /// @notice Closes a plan for good: whatever would create a record on it, move one to it or pay one back into it
    /// (a resumption that charges) reverts `PlanDeprecated`. Subscriptions on it go on renewing.
    /// @dev Provider only. Reverts `UnknownPlan`, `NotProvider`, `PlanDeprecated` the second time, `InvalidSuccessor`.
    /// @param successor a live plan of the same provider and token, not itself; zero for none.
    function deprecatePlan(bytes32 planId, bytes32 successor) external;

    /// @notice Stops a plan for good: it is deprecated, and every subscription on it ends with the period that is paid.
    /// From now on `renew`, `debit`, a resumption that charges and a change into the plan, also one that was scheduled
    /// before, revert `PlanStopped`. From paidThrough on the status is CANCELLED: no grace is served. Until then
    /// `cancel`, `rekey`, `pause`, a free resumption and `changePlan` to another plan work; a change away from it that
    /// was scheduled is never made.
    /// @dev Provider only. Reverts `UnknownPlan`, `NotProvider`, `PlanStopped` the second time. It is the worst that a
    /// stolen provider key can do, and the remedy against a stolen payee key.
    function stopPlan(bytes32 planId) external;

    /// @notice Sets what `account` may do on the plan, and nothing else: bits DEBIT 1 (debit allowances), VOUCHER 2
    /// (sign vouchers), RECEIPT 4 (sign usage receipts). 0 revokes all, and voids every voucher it signed that is not
    /// used yet: until the right is granted to the same account again, so grant it to a new key instead.
    /// @dev Provider only, which may restrict itself, too. May be repeated. Reverts `InvalidTerms("rights")` for other
    /// bits, `UnknownPlan`, `NotProvider`.
    function setOperator(bytes32 planId, address account, uint8 rights) external;

    /// @notice Proposes another payee, who becomes it when anyone calls `applyPayTo` seven days later; or at once, when
    /// the other of provider and payee proposes the same. A new proposal replaces the old one and starts the seven days
    /// again. One account that is both cannot confirm itself.
    /// @dev Provider or present payee. Reverts `InvalidTerms("payTo")` for zero and this contract, `UnknownPlan`,
    /// `NotProvider`. A stolen provider key diverts nothing as long as the payee looks once in seven days: either one
    /// can withdraw what the other proposes. An exchange's deposit address can not.
    function proposePayTo(bytes32 planId, address payTo) external;

    /// @notice Withdraws the proposal.
    /// @dev Provider or present payee. Reverts `UnknownPlan`, `NotProvider`, `NotProposed`.
    function withdrawPayTo(bytes32 planId) external;

    /// @notice Makes the proposed payee the plan's. Signups and plan changes that were signed before are void: they
    /// name the payee.
    /// @dev Anyone. Reverts `UnknownPlan`, `NotProposed`, `TooEarly`.
    function applyPayTo(bytes32 planId) external;

    /// @notice Offers the plan to another provider, instead of whom it was offered before; zero: to nobody.
    /// @dev Provider only. Reverts `UnknownPlan`, `NotProvider`.
    function offerPlan(bytes32 planId, address nextProvider) external;

    /// @notice Takes over a plan that the caller is offered, as provider and as payee: the payee has to be the old
    /// provider still. The caller has all rights then, the old provider none; a proposed payee lapses; the rights of
    /// others and the terms stay. Signups and changes that were signed before are void, as by `applyPayTo`.
    /// @dev Reverts `UnknownPlan`, `NotProvider`, `PayeeApart`.
    function acceptPlan(bytes32 planId) external;

    // ------------------------------------------------------------------ subscriptions

    /// @notice Subscribes `subscriber`: charges the first period, paid through now + interval, or does nothing. Periods
    /// in months start on the day of the month (UTC) that it is now, or on a shorter month's last day, at this time of
    /// day. Nobody else can use up the subscriber's idHash for it.
    ///
    /// Anyone may bring its signature, once:
    /// `Subscribe(address subscriber,bytes32 planId,address token,address payTo,uint256 amount,uint256 interval,`
    /// `string unit,uint256 firstAmount,uint256 firstInterval,uint256 maxOverage,uint256 until,bytes32 secretHash,`
    /// `uint256 deadline)`: the plan's terms as they are now, unit "seconds" or "months"; firstAmount and firstInterval
    /// of the voucher, without one the plan's amount and 0.
    /// @dev Not repeatable: the idHash is used up. Reverts `UnknownPlan`, `PlanDeprecated`, `PlanStopped`,
    /// `IdHashUsed`, `CapTooLarge`, `UntilReached` for an end that is not in the future, `SignatureExpired` and
    /// `InvalidSignature` (also when the payee has moved since), for the voucher `FirstIntervalTooLong`,
    /// `InvalidVoucher` and these two, and for the payment `InsufficientFunds`, `InsufficientApproval`,
    /// `TransferFailed`.
    /// @param voucher empty, or `abi.encode` of a `Voucher`: a first period that the provider offers, signed by an
    /// account with the VOUCHER right on the plan:
    /// `Voucher(bytes32 planId,address subscriber,bytes32 secretHash,address token,uint256 firstAmount,`
    /// `uint256 firstInterval,uint256 deadline)`. It is good for one idHash, and so once. After a first period in
    /// seconds, months count from its end.
    /// @param permit empty, or `abi.encode` of a `Permit`. One that fails is no error if the approval suffices: someone
    /// may have submitted it first.
    /// @param deadline unix seconds, inclusive.
    /// @param signature the subscriber's; ignored in its own call.
    function subscribe(
        address subscriber,
        Signup calldata signup,
        bytes calldata voucher,
        bytes calldata permit,
        uint256 deadline,
        bytes calldata signature
    ) external returns (bytes32 idHash);

    /// @notice Uses up an idHash that the subscriber has not signed up with: a signup that is signed for it is invalid
    /// from then on. `Void(address subscriber,bytes32 secretHash,uint256 deadline)`
    /// @dev Reverts `IdHashUsed`: cancel that subscription.
    function void(address subscriber, bytes32 secretHash, uint256 deadline, bytes calldata signature) external;

    /// @notice Stops service and collection until `resume`. The paid time goes on running.
    /// `Pause(address subscriber,bytes32 idHash,uint16 version,uint256 deadline)`
    /// @dev Needs ACTIVE, and t < paidThrough: when a period is owed, `RenewalDue`. Otherwise, and so the second time,
    /// `SubscriptionNotActive`.
    function pause(bytes32 idHash, Auth calldata auth) external;

    /// @notice Continues a paused or expired subscription.
    /// `Resume(address subscriber,bytes32 idHash,address token,uint256 maxCharge,uint16 version,uint256 deadline)`
    /// @dev PAUSED with t < paidThrough: free of charge. PAUSED later: charges a period that starts now. EXPIRED:
    /// charges a period that started `grace` ago, because that much was served. A scheduled change applies to a period
    /// that is charged. Otherwise, and so the second time, `NothingToResume`. When it charges: `PlanDeprecated`,
    /// `PlanStopped`, `ChargeAboveMax`, and the failures of a payment.
    /// @param maxCharge the most that may be charged, in base units, inclusive.
    function resume(bytes32 idHash, uint256 maxCharge, Auth calldata auth) external;

    /// @notice Ends the subscription, for good: at once, or with `atPeriodEnd` when the paid period does; from
    /// paidThrough (inclusive) on, at once either way. Moves nothing, and so works also while the token does not.
    /// `Cancel(address subscriber,bytes32 idHash,bool atPeriodEnd,uint16 version,uint256 deadline)`
    /// @dev The plan's provider may, too, at the period's end only and with the auth's deadline 0, which leaves the
    /// version as it is. It reverts only with `SubscriptionNotActive`, for NONE or CANCELLED, and for who may not. What
    /// ends at the period's end can still be cancelled at once, never kept.
    function cancel(bytes32 idHash, bool atPeriodEnd, Auth calldata auth) external;

    /// @notice Moves the subscription to another plan of the same provider and token, from now on: charges the new
    /// price less the credit for the rest of the period, `floor(amount * (paidThrough - t) / length of the paid
    /// period)`, and is paid through now + the new interval. A first period by voucher gives no credit. The allowance
    /// starts again with `maxOverage` as its cap. A scheduled change is dropped, the subscriber's end stays.
    /// `ChangePlan(address subscriber,bytes32 idHash,bytes32 newPlanId,address token,address payTo,uint256 amount,`
    /// `uint256 interval,string unit,uint256 maxOverage,uint256 maxCharge,uint16 version,uint256 deadline)`, with the
    /// new plan's terms as they are now.
    /// @dev Needs ACTIVE (`SubscriptionNotActive`), not ending (`Ending`), t < paidThrough (`RenewalDue`), t before the
    /// subscriber's end (`UntilReached`). Reverts `UnknownPlan`, `PlanMismatch` (also the second time),
    /// `PlanDeprecated`, `PlanStopped`, `CreditExceedsPrice`, `ChargeAboveMax`, `CapTooLarge`, and for the payment,
    /// which is left out when nothing is to be charged. `quoteChange` returns the charge beforehand.
    /// @param maxCharge the most that may be charged, in base units, inclusive.
    function changePlan(
        bytes32 idHash,
        bytes32 newPlanId,
        uint256 maxOverage,
        uint256 maxCharge,
        Auth calldata auth
    ) external;

    /// @notice Sets what happens at the next boundary, both as a whole: an end, and another plan for the next charged
    /// period (renewal, or resumption that charges). 0: none.
    ///
    /// From `until` on nothing is charged but debits of the paid period; once that is over too, the subscription is.
    /// The other plan's price and length count from where the next period starts, or from its own grace ago where that
    /// period would be over already; the cap stays. Nothing that the provider does keeps the change from being made,
    /// but ending the subscription or stopping either plan; `cancel` and `changePlan` drop it.
    /// `SetNext(address subscriber,bytes32 idHash,uint40 until,bytes32 nextPlanId,address token,address payTo,`
    /// `uint256 amount,uint256 interval,string unit,uint16 version,uint256 deadline)`, with the terms that are shown;
    /// unit "seconds" or "months", empty without a plan.
    /// @dev Reverts `SubscriptionNotActive` with NONE or CANCELLED, `Ending`, `UntilReached` for an end that is not in
    /// the future. A plan that is not scheduled yet needs ACTIVE and t < paidThrough (`RenewalDue`), and is refused as
    /// in `changePlan`; `PlanStopped` also for a change away from a stopped plan. `TermsDiffer` where `shown` is not
    /// what the plan has now.
    /// @param until unix seconds.
    /// @param nextPlanId another plan of the same provider and token.
    /// @param shown that plan's terms with its present payee; all zero without a plan.
    function setNext(
        bytes32 idHash,
        uint40 until,
        bytes32 nextPlanId,
        NextTerms calldata shown,
        Auth calldata auth
    ) external;

    /// @notice Moves the record, its allowance and its debit count to a fresh secret, when the old one has leaked.
    /// Costs nothing, changes nothing else, and is possible on a deprecated plan and while paused, past due, expired or
    /// ending. `Rekey(address subscriber,bytes32 idHash,bytes32 newSecretHash,uint16 version,uint256 deadline)`
    /// @dev Reverts `SubscriptionNotActive` with NONE or CANCELLED (so the second time), `IdHashUsed`. The new record
    /// starts at version 0.
    function rekey(bytes32 idHash, bytes32 newSecretHash, Auth calldata auth) external returns (bytes32 newIdHash);

    // ------------------------------------------------------------------ renewals

    /// @notice Collects the period that is due: from paidThrough (inclusive) until the next boundary (exclusive).
    /// Inside grace the new period is continuous; later it starts `grace` ago. At most one period in a call.
    /// @dev Anyone may call; only the payee receives. Repeatable without harm: the second time, `RenewalNotDue`.
    /// Otherwise `PlanStopped`, `Ending`, `SubscriptionNotActive`, and the failures of a payment, which consume no
    /// period.
    function renew(bytes32 idHash) external;

    /// @notice Does so for many. An item that fails is undone alone and leaves a `RenewalFailed`.
    /// @dev Anyone. Reverts as a whole, with `InsufficientGas`, when too little gas is left to give an item its full
    /// allowance of 450,000 (of which most is returned): no gas limit can turn a sound item into a failure.
    /// @return reasons 0 for success, otherwise the selector of the item's error; in the order of `idHashes`.
    function renewBatch(bytes32[] calldata idHashes) external returns (bytes4[] memory reasons);

    // ------------------------------------------------------------------ allowances

    /// @notice Sets the cap of debits in each cycle, higher or lower, from this cycle on. What is spent stays spent.
    /// `SetMaxOverage(address subscriber,bytes32 idHash,address token,uint256 cap,uint16 version,uint256 deadline)`
    /// @dev May be repeated. Reverts `SubscriptionNotActive` with NONE or CANCELLED, `CapTooLarge`.
    /// @param cap base units in a cycle, 0 to 2^88 - 1 inclusive.
    function setMaxOverage(bytes32 idHash, uint256 cap, Auth calldata auth) external;

    /// @notice Moves `amount` to the payee, within what is left of the cap in this cycle. Until it is renewed, also in
    /// grace, that is the old cycle.
    /// @dev Operators of the plan. Needs ACTIVE. Not repeatable: each index succeeds once. Reverts, in this order,
    /// `PlanStopped`, `SubscriptionNotActive`, `NotOperator`, `ZeroAmount`, `StaleDebit`, `AllowanceExhausted`, and for
    /// the payment.
    /// @param amount base units, above 0, to what remains inclusive.
    /// @param index the number of debits made so far, see `getAllowance`.
    function debit(bytes32 idHash, uint256 amount, uint256 index) external;

    /// @notice Does so for many, in order. An item that fails is undone alone and leaves a `DebitFailed`.
    /// @dev Operators; each item is judged for the caller, so a batch may hold items of several plans. Gas as for
    /// `renewBatch`.
    /// @return reasons 0 for success, otherwise the selector of the item's error; in the order of `debits`.
    function debitBatch(Debit[] calldata debits) external returns (bytes4[] memory reasons);

    // ------------------------------------------------------------------ views

    /// @notice The status now. The first line that matches decides (t now, p paidThrough, g grace, n next boundary, U
    /// until): NONE: unknown. CANCELLED: cancelled, voided, rekeyed away, or t >= p and ending, on a stopped plan, or
    /// t >= U.
    /// PAUSED: paused. ACTIVE: t < p + g. PAST_DUE: t < n. EXPIRED: else. Service is for ACTIVE alone.
    function statusOf(bytes32 idHash) external view returns (Status);

    /// @notice What `changePlan` would charge now, and the credit that it would give. Reverts as that would.
    function quoteChange(bytes32 idHash, bytes32 newPlanId) external view returns (uint256 charge, uint256 credit);

    /// @notice `keccak256(abi.encode(subscriber, secretHash))`
    function idHashOf(address subscriber, bytes32 secretHash) external pure returns (bytes32);

    /// @notice The words of storage at `slots`, for `TurnpikeLens`, which makes structs of them.
    function words(bytes32[] calldata slots) external view returns (bytes32[] memory);

    // ------------------------------------------------------------------ several calls at once

    /// @notice Makes several calls in one transaction, all or nothing; each has the same caller that this one has.
    /// @dev Reverts with the error of the first that fails.
    function multicall(bytes[] calldata data) external returns (bytes[] memory results);
}
