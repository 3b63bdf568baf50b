// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Auth, ITurnpike, NextTerms, Signup, Status} from "./interfaces/ITurnpike.sol";
import {Permit, Voucher, VOUCHER_RIGHT} from "./interfaces/TurnpikeTypes.sol";
import {Ledger} from "./Ledger.sol";
import {Standing} from "./libraries/Standing.sol";
import {Tokens} from "./libraries/Tokens.sol";
import {TypedData} from "./libraries/TypedData.sol";
import {
    AllowanceWord,
    NextWord,
    NextWords,
    PayeeWord,
    PriceWord,
    StartWord,
    StartWords,
    SubscriptionWord,
    SubscriptionWords
} from "./libraries/Words.sol";

/// @title Subscriptions: their life from signup to end
/// @dev Each act is the subscriber's own call, or anyone's that brings its signature.
/// Order everywhere: checks, state, event, and the token last, so that a token which calls back finds the work done.
abstract contract Subscriptions is Ledger {
    using Standing for SubscriptionWord;

    /// @dev A year, leap day included: what a stolen voucher key gives away ends.
    uint256 private constant LONGEST_FIRST_INTERVAL = 366 days;

    // ------------------------------------------------------------------ create

    /// @inheritdoc ITurnpike
    function subscribe(
        address subscriber,
        Signup calldata signup,
        bytes calldata voucher,
        bytes calldata permit,
        uint256 deadline,
        bytes calldata signature
    ) external returns (bytes32 idHash) {
        (uint32 planIndex, PlanRecord storage plan) = _existingPlan(signup.planId);
        PriceWord price = plan.price; // never changes
        // A token that calls back here finds nothing done, and what it changes is seen.
        if (permit.length != 0) Tokens.tryPermit(price.token(), subscriber, abi.decode(permit, (Permit)));
        PayeeWord payee = plan.payee;
        StartWord start = StartWords.regular(price);
        if (voucher.length != 0) {
            Voucher memory offer = abi.decode(voucher, (Voucher));
            _requireVoucher(subscriber, planIndex, price, payee, signup, offer);
            start = StartWords.introductory(offer.firstAmount, offer.firstInterval);
        }
        start = start.withUntil(signup.until);
        if (msg.sender != subscriber) {
            bytes32 structHash = TypedData.subscribe(subscriber, signup, price, payee, start, deadline);
            _requireSignature(subscriber, structHash, deadline, signature);
        }
        return _subscribe(subscriber, planIndex, signup, price, payee, start);
    }

    /// @inheritdoc ITurnpike
    function void(address subscriber, bytes32 secretHash, uint256 deadline, bytes calldata signature) external {
        if (msg.sender != subscriber) {
            _requireSignature(subscriber, TypedData.voiding(subscriber, secretHash, deadline), deadline, signature);
        }
        bytes32 idHash = _idHashOf(subscriber, secretHash);
        if (_subscriptions[idHash].word.exists()) revert IdHashUsed(idHash);
        _subscriptions[idHash].word = SubscriptionWords.tombstone(subscriber);
        emit Voided(idHash, subscriber);
    }

    // ------------------------------------------------------------------ pause and resume

    /// @inheritdoc ITurnpike
    function pause(bytes32 idHash, Auth calldata auth) external {
        SubscriptionWord s = _existing(idHash);
        if (_isSigned(idHash, s, auth)) {
            _requireAuth(s, TypedData.pause(s.subscriber(), idHash, auth.version, auth.deadline), auth);
        }
        Status status = _statusOf(idHash, s);
        if (status != Status.ACTIVE) revert SubscriptionNotActive(idHash, status);
        // In grace a period is owed: pausing must not be a way out of paying what was served.
        if (block.timestamp >= s.paidThrough()) revert RenewalDue(idHash, s.paidThrough());

        _subscriptions[idHash].word = _bumped(idHash, s).asPaused();
        emit Paused(idHash);
    }

    /// @inheritdoc ITurnpike
    function resume(bytes32 idHash, uint256 maxCharge, Auth calldata auth) external {
        SubscriptionWord s = _existing(idHash);
        if (_isSigned(idHash, s, auth)) {
            (address subscriber, address token) = (s.subscriber(), _tokenOf(s));
            bytes32 structHash = TypedData.resume(subscriber, idHash, token, maxCharge, auth.version, auth.deadline);
            _requireAuth(s, structHash, auth);
        }
        _resume(idHash, s, maxCharge);
    }

    // ------------------------------------------------------------------ change

    /// @inheritdoc ITurnpike
    function changePlan(
        bytes32 idHash,
        bytes32 newPlanId,
        uint256 maxOverage,
        uint256 maxCharge,
        Auth calldata auth
    ) external {
        SubscriptionWord s = _existing(idHash);
        if (_isSigned(idHash, s, auth)) {
            (, PlanRecord storage plan) = _existingPlan(newPlanId);
            bytes32 structHash = TypedData.changePlan(
                s.subscriber(),
                idHash,
                newPlanId,
                plan.price,
                plan.payee,
                maxOverage,
                maxCharge,
                auth.version,
                auth.deadline
            );
            _requireAuth(s, structHash, auth);
        }
        _changePlan(idHash, s, newPlanId, maxOverage, maxCharge);
    }

    /// @inheritdoc ITurnpike
    function setNext(
        bytes32 idHash,
        uint40 until,
        bytes32 nextPlanId,
        NextTerms calldata shown,
        Auth calldata auth
    ) external {
        SubscriptionWord s = _existing(idHash);
        if (_isSigned(idHash, s, auth)) {
            bytes32 structHash = TypedData.setNext(
                s.subscriber(),
                idHash,
                until,
                nextPlanId,
                shown,
                auth.version,
                auth.deadline
            );
            _requireAuth(s, structHash, auth);
        }
        _setNext(idHash, s, until, nextPlanId, shown);
    }

    /// @inheritdoc ITurnpike
    function rekey(bytes32 idHash, bytes32 newSecretHash, Auth calldata auth) external returns (bytes32 newIdHash) {
        SubscriptionWord s = _existing(idHash);
        if (_isSigned(idHash, s, auth)) {
            bytes32 structHash = TypedData.rekey(s.subscriber(), idHash, newSecretHash, auth.version, auth.deadline);
            _requireAuth(s, structHash, auth);
        }
        return _rekey(idHash, s, newSecretHash);
    }

    // ------------------------------------------------------------------ end

    /// @inheritdoc ITurnpike
    function cancel(bytes32 idHash, bool atPeriodEnd, Auth calldata auth) external {
        SubscriptionWord s = _existing(idHash);
        (address by, SubscriptionWord next) = (s.subscriber(), _bumpedOrLast(s));
        if (
            auth.deadline == 0 &&
            atPeriodEnd &&
            msg.sender != by &&
            _plans[s.planIndex()].owner.provider() == msg.sender
        ) {
            // A provider's act voids no signature of the subscriber: the version stays.
            (by, next) = (msg.sender, s);
        } else if (_isSigned(idHash, s, auth)) {
            _requireAuth(s, TypedData.cancel(by, idHash, atPeriodEnd, auth.version, auth.deadline), auth);
        }
        Status status = _statusOf(idHash, s);
        if (status == Status.CANCELLED) revert SubscriptionNotActive(idHash, status);

        // From paidThrough on both forms are immediate.
        bool later = atPeriodEnd && block.timestamp < s.paidThrough();
        _subscriptions[idHash].word = later ? next.asEnding() : next.asCancelled();
        emit Cancelled(idHash, later, by);
    }

    // ------------------------------------------------------------------ views

    /// @inheritdoc ITurnpike
    function statusOf(bytes32 idHash) external view returns (Status) {
        return _statusOf(idHash, _subscriptions[idHash].word);
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

    function _requireVoucher(
        address subscriber,
        uint32 planIndex,
        PriceWord price,
        PayeeWord payee,
        Signup calldata signup,
        Voucher memory voucher
    ) private {
        if (voucher.firstInterval > LONGEST_FIRST_INTERVAL) {
            revert FirstIntervalTooLong(voucher.firstInterval, LONGEST_FIRST_INTERVAL);
        }
        // A voucher for the plan's own first period is refused: the subscriber signs the same message without one, and
        // an introduction gives no credit.
        if (
            voucher.firstAmount > price.amount() ||
            (voucher.firstAmount == price.amount() && _isRegular(voucher.firstInterval, payee)) ||
            _rights[_operatorKey(planIndex, voucher.signer)] & VOUCHER_RIGHT == 0
        ) revert InvalidVoucher(signup.planId, voucher.signer);
        bytes32 structHash = TypedData.voucher(subscriber, signup, price.token(), voucher);
        _requireSignature(voucher.signer, structHash, voucher.deadline, voucher.signature);
        emit VoucherUsed(_idHashOf(subscriber, signup.secretHash), voucher.signer, voucher.firstAmount);
    }

    /// @dev Whether a first period of this length is what the plan has without a voucher.
    function _isRegular(uint32 firstInterval, PayeeWord payee) private pure returns (bool) {
        return firstInterval == 0 || (firstInterval == payee.interval() && !payee.isMonthly());
    }

    function _subscribe(
        address subscriber,
        uint32 planIndex,
        Signup calldata signup,
        PriceWord price,
        PayeeWord payee,
        StartWord start
    ) private returns (bytes32 idHash) {
        if (payee.isDeprecated()) _revertClosed(signup.planId, payee);
        idHash = _idHashOf(subscriber, signup.secretHash);
        SubscriptionRecord storage subscription = _subscriptions[idHash];
        if (subscription.word.exists()) revert IdHashUsed(idHash);
        uint88 cap = _checkedCap(signup.maxOverage);

        (uint256 paidThrough, uint256 anchor) = Standing.firstPeriod(block.timestamp, start.firstInterval(), payee);
        SubscriptionWord s = SubscriptionWords.pack(subscriber, paidThrough, planIndex, anchor);
        if (start.isIntro()) s = s.asIntro();
        uint40 until = start.until();
        if (until != 0) {
            if (until <= block.timestamp) revert UntilReached(idHash, until);
            s = s.withNext(true, false);
            _nexts[idHash] = NextWords.pack(until, 0);
            // Before `Subscribed`, so that the log of a `setNext` in the same transaction cannot be taken for it.
            emit NextSet(idHash, until, 0);
        }
        subscription.word = s;
        if (cap != 0) _allowances[idHash].word = AllowanceWord.wrap(0).restarted(cap, uint40(paidThrough));
        emit Subscribed(idHash, signup.planId, subscriber, signup.maxOverage, uint40(paidThrough));
        if (anchor != 0) emit Anchored(idHash, uint8(anchor));

        uint256 charge = start.firstAmount();
        if (charge != 0) Tokens.collect(price.token(), subscriber, payee.payTo(), charge);
    }

    function _resume(bytes32 idHash, SubscriptionWord s, uint256 maxCharge) private {
        PlanRecord storage plan = _plans[s.planIndex()];
        PayeeWord payee = plan.payee;
        Status status = s.statusAt(payee, _untilOf(idHash, s), block.timestamp);
        uint256 start;
        if (status == Status.EXPIRED) {
            start = block.timestamp - payee.grace(); // the grace that was served after the paid period is paid now
        } else if (status != Status.PAUSED) {
            if (payee.isStopped() && block.timestamp >= s.paidThrough()) revert PlanStopped(plan.planId);
            revert NothingToResume(idHash, status);
        } else if (block.timestamp < s.paidThrough()) {
            _subscriptions[idHash].word = _bumped(idHash, s).asUnpaused();
            emit Resumed(idHash, 0, s.paidThrough());
            return;
        } else {
            start = block.timestamp; // paused before the end: nothing was served since
        }

        s = _withPeriod(idHash, _bumped(idHash, s).asUnpaused(), _takeNextPlan(idHash, s), start);
        plan = _plans[s.planIndex()];
        payee = plan.payee;
        PriceWord price = plan.price;
        if (payee.isDeprecated()) _revertClosed(plan.planId, payee);
        if (price.amount() > maxCharge) revert ChargeAboveMax(price.amount(), maxCharge);

        _subscriptions[idHash].word = s;
        emit Resumed(idHash, price.amount(), s.paidThrough());

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

        s = _withPeriod(idHash, _bumped(idHash, s), newIndex, block.timestamp);
        uint40 paidThrough = s.paidThrough();
        _subscriptions[idHash].word = s;
        // Rewritten even at cap 0: a shorter interval may bring paidThrough back to a cycle that `spent` remembers.
        AllowanceWord a = _allowances[idHash].word;
        if (cap != 0 || a.exists()) _allowances[idHash].word = a.restarted(cap, paidThrough);
        emit PlanChanged(idHash, newPlanId, maxOverage, charge, paidThrough);

        if (charge != 0) Tokens.collect(plan.price.token(), s.subscriber(), payee.payTo(), charge);
    }

    function _setNext(
        bytes32 idHash,
        SubscriptionWord s,
        uint40 until,
        bytes32 nextPlanId,
        NextTerms calldata shown
    ) private {
        Status status = _statusOf(idHash, s);
        if (status == Status.CANCELLED) revert SubscriptionNotActive(idHash, status);
        if (s.isEnding()) revert Ending(idHash);
        if (until != 0 && until <= block.timestamp) revert UntilReached(idHash, until);

        uint32 nextIndex = 0;
        if (nextPlanId != bytes32(0)) {
            nextIndex = _planIndexOf[nextPlanId];
            // What is scheduled already stays, whatever the plan has become since.
            if (!s.hasNext() || nextIndex != _nexts[idHash].nextPlanIndex()) {
                _requireChangeable(idHash, s, status);
                PlanRecord storage plan = _plans[s.planIndex()];
                if (plan.payee.isStopped()) revert PlanStopped(plan.planId);
                (nextIndex, ) = _requireChange(s, plan, nextPlanId);
            }
        }
        _requireShown(nextPlanId, _plans[nextIndex], shown);

        _subscriptions[idHash].word = _bumped(idHash, s).withNext(until != 0, nextIndex != 0);
        _nexts[idHash] = NextWords.pack(until, nextIndex);
        emit NextSet(idHash, until, nextPlanId);
    }

    /// @dev No plan has index 0: its terms are zero.
    function _requireShown(bytes32 planId, PlanRecord storage plan, NextTerms calldata shown) private view {
        (PriceWord price, PayeeWord payee) = (plan.price, plan.payee);
        string memory field;
        if (shown.token != price.token()) field = "token";
        else if (shown.payTo != payee.payTo()) field = "payTo";
        else if (shown.amount != price.amount()) field = "amount";
        else if (shown.interval != payee.interval()) field = "interval";
        else if (shown.months != payee.isMonthly()) field = "unit";
        else return;
        revert TermsDiffer(planId, field);
    }

    function _rekey(bytes32 idHash, SubscriptionWord s, bytes32 newSecretHash) private returns (bytes32 newIdHash) {
        Status status = _statusOf(idHash, s);
        if (status == Status.CANCELLED) revert SubscriptionNotActive(idHash, status);
        newIdHash = _idHashOf(s.subscriber(), newSecretHash);
        if (_subscriptions[newIdHash].word.exists()) revert IdHashUsed(newIdHash);

        _subscriptions[newIdHash].word = s.withVersionZero();
        _subscriptions[idHash].word = _bumpedOrLast(s).asCancelled();
        if (s.isLimited() || s.hasNext()) {
            _nexts[newIdHash] = _nexts[idHash];
            _nexts[idHash] = NextWord.wrap(0);
        }
        AllowanceWord a = _allowances[idHash].word;
        if (a.exists()) {
            _allowances[newIdHash].word = a;
            _allowances[idHash].word = AllowanceWord.wrap(0);
        }
        emit Rekeyed(idHash, newIdHash);
    }

    /// @dev All that `changePlan` checks but for the subscriber's own limits.
    function _quoteChange(
        bytes32 idHash,
        SubscriptionWord s,
        bytes32 newPlanId
    ) private view returns (uint256 charge, uint256 credit, uint32 newIndex) {
        PlanRecord storage plan = _plans[s.planIndex()];
        PlanRecord storage next;
        PayeeWord payee = plan.payee;
        uint40 until = _untilOf(idHash, s);
        _requireChangeable(idHash, s, s.statusAt(payee, until, block.timestamp));
        if (until != 0 && block.timestamp >= until) revert UntilReached(idHash, until);
        (newIndex, next) = _requireChange(s, plan, newPlanId);

        uint256 price = next.price.amount();
        credit = s.creditFor(payee, plan.price.amount(), block.timestamp);
        if (credit > price) revert CreditExceedsPrice(credit, price);
        charge = price - credit;
    }

    /// @dev In grace a period is owed at the present price.
    function _requireChangeable(bytes32 idHash, SubscriptionWord s, Status status) private view {
        if (status != Status.ACTIVE) revert SubscriptionNotActive(idHash, status);
        if (s.isEnding()) revert Ending(idHash);
        if (block.timestamp >= s.paidThrough()) revert RenewalDue(idHash, s.paidThrough());
    }

    /// @dev To another plan of the same provider and token that is open.
    function _requireChange(
        SubscriptionWord s,
        PlanRecord storage plan,
        bytes32 newPlanId
    ) private view returns (uint32 newIndex, PlanRecord storage next) {
        (newIndex, next) = _existingPlan(newPlanId);
        if (
            newIndex == s.planIndex() ||
            plan.owner.provider() != next.owner.provider() ||
            plan.price.token() != next.price.token()
        ) revert PlanMismatch(plan.planId, newPlanId);
        if (next.payee.isDeprecated()) _revertClosed(newPlanId, next.payee);
    }
}
