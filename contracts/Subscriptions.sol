// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Auth, ITurnpike, Permit, Status, SubscriptionView} from "./interfaces/ITurnpike.sol";
import {Ledger} from "./Ledger.sol";
import {Standing} from "./libraries/Standing.sol";
import {Tokens} from "./libraries/Tokens.sol";
import {TypedData} from "./libraries/TypedData.sol";
import {AllowanceWord, PayeeWord, PriceWord, SubscriptionWord, SubscriptionWords} from "./libraries/Words.sol";

/// @title Subscriptions: their life from signup to end
/// @dev Each act has two doors, the subscriber's own call and a signature, which meet in one internal function.
/// Order everywhere: checks, state, event, and the token last, so that a token which calls back finds the work done.
abstract contract Subscriptions is Ledger {
    using Standing for SubscriptionWord;

    // ------------------------------------------------------------------ create

    /// @inheritdoc ITurnpike
    function subscribe(bytes32 planId, bytes32 secretHash, uint256 maxOverage) external returns (bytes32 idHash) {
        return _subscribe(msg.sender, planId, secretHash, maxOverage);
    }

    /// @inheritdoc ITurnpike
    function subscribeBySig(
        address subscriber,
        bytes32 planId,
        bytes32 secretHash,
        uint256 maxOverage,
        uint256 deadline,
        bytes calldata signature,
        Permit calldata permit
    ) external returns (bytes32 idHash) {
        bytes32 structHash = TypedData.subscribe(subscriber, planId, secretHash, maxOverage, deadline);
        _requireSignature(subscriber, structHash, deadline, signature);
        if (permit.deadline != 0) {
            // Before all checks of state: a token that calls back here can only make them fail.
            (, PlanRecord storage plan) = _existingPlan(planId);
            Tokens.tryPermit(plan.price.token(), subscriber, permit);
        }
        return _subscribe(subscriber, planId, secretHash, maxOverage);
    }

    // ------------------------------------------------------------------ pause and resume

    /// @inheritdoc ITurnpike
    function pause(bytes32 idHash) external {
        _pause(idHash, _ownedByCaller(idHash));
    }

    /// @inheritdoc ITurnpike
    function pauseBySig(bytes32 idHash, Auth calldata auth) external {
        SubscriptionWord s = _existing(idHash);
        _requireAuth(idHash, s, TypedData.pause(s.subscriber(), idHash, auth.version, auth.deadline), auth);
        _pause(idHash, s);
    }

    /// @inheritdoc ITurnpike
    function resume(bytes32 idHash, uint256 maxCharge) external {
        _resume(idHash, _ownedByCaller(idHash), maxCharge);
    }

    /// @inheritdoc ITurnpike
    function resumeBySig(bytes32 idHash, uint256 maxCharge, Auth calldata auth) external {
        SubscriptionWord s = _existing(idHash);
        bytes32 structHash = TypedData.resume(s.subscriber(), idHash, maxCharge, auth.version, auth.deadline);
        _requireAuth(idHash, s, structHash, auth);
        _resume(idHash, s, maxCharge);
    }

    // ------------------------------------------------------------------ change

    /// @inheritdoc ITurnpike
    function changePlan(bytes32 idHash, bytes32 newPlanId, uint256 maxOverage, uint256 maxCharge) external {
        _changePlan(idHash, _ownedByCaller(idHash), newPlanId, maxOverage, maxCharge);
    }

    /// @inheritdoc ITurnpike
    function changePlanBySig(
        bytes32 idHash,
        bytes32 newPlanId,
        uint256 maxOverage,
        uint256 maxCharge,
        Auth calldata auth
    ) external {
        SubscriptionWord s = _existing(idHash);
        bytes32 structHash = TypedData.changePlan(
            s.subscriber(),
            idHash,
            newPlanId,
            maxOverage,
            maxCharge,
            auth.version,
            auth.deadline
        );
        _requireAuth(idHash, s, structHash, auth);
        _changePlan(idHash, s, newPlanId, maxOverage, maxCharge);
    }

    /// @inheritdoc ITurnpike
    function rekey(bytes32 idHash, bytes32 newSecretHash) external returns (bytes32 newIdHash) {
        return _rekey(idHash, _ownedByCaller(idHash), newSecretHash);
    }

    /// @inheritdoc ITurnpike
    function rekeyBySig(
        bytes32 idHash,
        bytes32 newSecretHash,
        Auth calldata auth
    ) external returns (bytes32 newIdHash) {
        SubscriptionWord s = _existing(idHash);
        bytes32 structHash = TypedData.rekey(s.subscriber(), idHash, newSecretHash, auth.version, auth.deadline);
        _requireAuth(idHash, s, structHash, auth);
        return _rekey(idHash, s, newSecretHash);
    }

    // ------------------------------------------------------------------ end

    /// @inheritdoc ITurnpike
    function cancel(bytes32 idHash, bool atPeriodEnd) external {
        SubscriptionWord s = _existing(idHash);
        if (s.subscriber() == msg.sender) {
            _cancel(idHash, s, _bumpedOrLast(s), atPeriodEnd, msg.sender);
        } else {
            if (!atPeriodEnd || _plans[s.planIndex()].owner.provider() != msg.sender) {
                revert NotSubscriber(idHash, msg.sender);
            }
            // A provider's act voids no signature of the subscriber: the version stays.
            _cancel(idHash, s, s, true, msg.sender);
        }
    }

    /// @inheritdoc ITurnpike
    function cancelBySig(bytes32 idHash, bool atPeriodEnd, Auth calldata auth) external {
        SubscriptionWord s = _existing(idHash);
        bytes32 structHash = TypedData.cancel(s.subscriber(), idHash, atPeriodEnd, auth.version, auth.deadline);
        _requireAuth(idHash, s, structHash, auth);
        _cancel(idHash, s, _bumpedOrLast(s), atPeriodEnd, s.subscriber());
    }

    // ------------------------------------------------------------------ views

    /// @inheritdoc ITurnpike
    function statusOf(bytes32 idHash) external view returns (Status) {
        return _statusOf(_subscriptions[idHash].word);
    }

    /// @inheritdoc ITurnpike
    function getSubscription(bytes32 idHash) external view returns (SubscriptionView memory) {
        return _subscriptionView(idHash);
    }

    /// @inheritdoc ITurnpike
    function quoteChange(bytes32 idHash, bytes32 newPlanId) external view returns (uint256 charge, uint256 credit) {
        (charge, credit, ) = _quoteChange(idHash, _existing(idHash), newPlanId);
    }

    /// @inheritdoc ITurnpike
    function idHashOf(address subscriber, bytes32 secretHash) external pure returns (bytes32) {
        return _idHashOf(subscriber, secretHash);
    }

    // ------------------------------------------------------------------ internals

    function _subscribe(
        address subscriber,
        bytes32 planId,
        bytes32 secretHash,
        uint256 maxOverage
    ) private returns (bytes32 idHash) {
        (uint32 planIndex, PlanRecord storage plan) = _existingPlan(planId);
        PayeeWord payee = plan.payee;
        if (payee.isDeprecated()) revert PlanDeprecated(planId);
        idHash = _idHashOf(subscriber, secretHash);
        if (_subscriptions[idHash].word.exists()) revert IdHashUsed(idHash);
        uint88 cap = _checkedCap(maxOverage);

        uint40 paidThrough = uint40(block.timestamp + payee.interval());
        _subscriptions[idHash].word = SubscriptionWords.pack(subscriber, paidThrough, planIndex);
        if (cap != 0) _allowances[idHash].word = AllowanceWord.wrap(0).restarted(cap, paidThrough);
        emit Subscribed(idHash, planId, subscriber, maxOverage, paidThrough);

        PriceWord price = plan.price;
        Tokens.collect(price.token(), subscriber, payee.payTo(), price.amount());
    }

    function _pause(bytes32 idHash, SubscriptionWord s) private {
        Status status = _statusOf(s);
        if (status != Status.ACTIVE) revert SubscriptionNotActive(idHash, status);
        // In grace a period is owed: pausing must not be a way out of paying what was served.
        if (block.timestamp >= s.paidThrough()) revert RenewalDue(idHash, s.paidThrough());

        _subscriptions[idHash].word = _bumped(idHash, s).asPaused();
        emit Paused(idHash);
    }

    function _resume(bytes32 idHash, SubscriptionWord s, uint256 maxCharge) private {
        PlanRecord storage plan = _plans[s.planIndex()];
        PayeeWord payee = plan.payee;
        Status status = s.statusAt(payee, block.timestamp);
        uint256 start;
        if (status == Status.EXPIRED) {
            start = block.timestamp - payee.grace(); // the grace that was served after the paid period is paid now
        } else if (status != Status.PAUSED) {
            revert NothingToResume(idHash, status);
        } else if (block.timestamp < s.paidThrough()) {
            _subscriptions[idHash].word = _bumped(idHash, s).asUnpaused();
            emit Resumed(idHash, 0, s.paidThrough());
            return;
        } else {
            start = block.timestamp; // paused before the end: nothing was served since
        }

        PriceWord price = plan.price;
        if (payee.isDeprecated()) revert PlanDeprecated(plan.planId);
        if (price.amount() > maxCharge) revert ChargeAboveMax(price.amount(), maxCharge);

        uint40 paidThrough = uint40(start + payee.interval());
        _subscriptions[idHash].word = _bumped(idHash, s).asUnpaused().withPaidThrough(paidThrough);
        emit Resumed(idHash, price.amount(), paidThrough);

        Tokens.collect(price.token(), s.subscriber(), payee.payTo(), price.amount());
    }

    function _changePlan(
        bytes32 idHash,
        SubscriptionWord s,
        bytes32 newPlanId,
        uint256 maxOverage,
        uint256 maxCharge
    ) private {
        (uint256 charge, , uint32 newIndex) = _quoteChange(idHash, s, newPlanId);
        if (charge > maxCharge) revert ChargeAboveMax(charge, maxCharge);
        uint88 cap = _checkedCap(maxOverage);
        PlanRecord storage plan = _plans[newIndex];
        PayeeWord payee = plan.payee;

        uint40 paidThrough = uint40(block.timestamp + payee.interval());
        _subscriptions[idHash].word = _bumped(idHash, s).withPlan(newIndex, paidThrough);
        // Rewritten even at cap 0: a shorter interval may bring paidThrough back to a cycle that `spent` remembers.
        AllowanceWord a = _allowances[idHash].word;
        if (cap != 0 || a.exists()) _allowances[idHash].word = a.restarted(cap, paidThrough);
        emit PlanChanged(idHash, newPlanId, maxOverage, charge, paidThrough);

        if (charge != 0) Tokens.collect(plan.price.token(), s.subscriber(), payee.payTo(), charge);
    }

    function _rekey(bytes32 idHash, SubscriptionWord s, bytes32 newSecretHash) private returns (bytes32 newIdHash) {
        Status status = _statusOf(s);
        if (status == Status.CANCELLED) revert SubscriptionNotActive(idHash, status);
        newIdHash = _idHashOf(s.subscriber(), newSecretHash);
        if (_subscriptions[newIdHash].word.exists()) revert IdHashUsed(newIdHash);

        _subscriptions[newIdHash].word = s.withVersionZero();
        _subscriptions[idHash].word = _bumpedOrLast(s).asCancelled();
        AllowanceWord a = _allowances[idHash].word;
        if (a.exists()) {
            _allowances[newIdHash].word = a;
            _allowances[idHash].word = AllowanceWord.wrap(0);
        }
        emit Rekeyed(idHash, newIdHash);
    }

    /// @dev `next` is the record with the version that the act leaves. From paidThrough on both forms are immediate.
    function _cancel(bytes32 idHash, SubscriptionWord s, SubscriptionWord next, bool atPeriodEnd, address by) private {
        Status status = _statusOf(s);
        if (status == Status.CANCELLED) revert SubscriptionNotActive(idHash, status);

        bool later = atPeriodEnd && block.timestamp < s.paidThrough();
        _subscriptions[idHash].word = later ? next.asEnding() : next.asCancelled();
        emit Cancelled(idHash, later, by);
    }

    /// @dev All that `changePlan` checks but for the subscriber's own limits.
    function _quoteChange(
        bytes32 idHash,
        SubscriptionWord s,
        bytes32 newPlanId
    ) private view returns (uint256 charge, uint256 credit, uint32 newIndex) {
        PlanRecord storage plan = _plans[s.planIndex()];
        PayeeWord payee = plan.payee;
        Status status = s.statusAt(payee, block.timestamp);
        if (status != Status.ACTIVE) revert SubscriptionNotActive(idHash, status);
        if (s.isEnding()) revert Ending(idHash);
        uint256 paidThrough = s.paidThrough();
        if (block.timestamp >= paidThrough) revert RenewalDue(idHash, paidThrough);

        PlanRecord storage next;
        (newIndex, next) = _existingPlan(newPlanId);
        PriceWord price = plan.price;
        PriceWord nextPrice = next.price;
        PayeeWord nextPayee = next.payee;
        if (
            newIndex == s.planIndex() ||
            plan.owner.provider() != next.owner.provider() ||
            price.token() != nextPrice.token() ||
            payee.payTo() != nextPayee.payTo()
        ) revert PlanMismatch(plan.planId, newPlanId);
        if (nextPayee.isDeprecated()) revert PlanDeprecated(newPlanId);

        credit = Standing.creditFor(price.amount(), paidThrough - block.timestamp, payee.interval());
        if (credit > nextPrice.amount()) revert CreditExceedsPrice(credit, nextPrice.amount());
        charge = nextPrice.amount() - credit;
    }

    function _subscriptionView(bytes32 idHash) internal view returns (SubscriptionView memory) {
        SubscriptionWord s = _subscriptions[idHash].word;
        return
            SubscriptionView({
                idHash: idHash,
                subscriber: s.subscriber(),
                planId: _plans[s.planIndex()].planId,
                paidThrough: s.paidThrough(),
                version: s.version(),
                paused: s.isPaused(),
                ending: s.isEnding(),
                cancelled: s.isCancelled(),
                status: _statusOf(s)
            });
    }
}
