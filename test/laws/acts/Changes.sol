// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike, NextTerms, Status, Terms} from "../../../contracts/interfaces/ITurnpike.sol";
import {Almanac} from "../Almanac.sol";
import {FickleToken} from "../doubles/FickleToken.sol";
import {Premise} from "../Premises.sol";
import {vm} from "../Vm.sol";
import {Unexpected} from "../World.sol";
import {EntryPoints} from "./EntryPoints.sol";

/// @notice What a subscriber may change about a subscription that it has, and what others may not.
abstract contract Changes is EntryPoints {
    /// @notice Time passes; at times by years.
    function pass(uint256 seed) external atClock {
        uint256 roll = _draw(seed, 12);
        if (roll == 0) {
            clock += 365 days + _draw(seed, 5 * 365 days);
            _saw(Premise.YearsPass);
        } else if (roll == 1) {
            clock += _draw(seed, 1 hours);
        } else if (roll == 4) {
            _renewInRow(seed);
        } else if (roll < 4) {
            // The last days of this month, from which shorter months differ.
            (uint256 month, ) = Almanac.dateOf(clock / 1 days);
            uint256 end = Almanac.dayOf(month, 29 + _draw(seed, 3)) * 1 days + _draw(seed, 1 days);
            if (end > clock) clock = end;
        } else {
            _passToBoundary(seed);
        }
    }

    /// @dev Half a year of one record on a late day of the month, if there is one: renewed at each boundary, in time.
    function _renewInRow(uint256 seed) private {
        bytes32 id = _pickFit(seed, _isLate);
        Record storage r = records[id];
        for (uint256 i = 0; i < 6 && _isLate(id); ++i) {
            uint256 grace = _planOf(r.planId).terms.grace;
            if (clock < r.paidThrough) clock = r.paidThrough + _draw(seed, grace / 2 + 1);
            vm.warp(clock);
            _collect(id);
        }
    }

    function _isLate(bytes32 id) private view returns (bool) {
        Record storage r = records[id];
        return r.anchor > 28 && !r.ending && _statusAt(r, clock) == Status.ACTIVE;
    }

    function pause(uint256 seed) external drifting(seed) {
        _pause(seed);
        if (_draw(seed, 3) == 0) _resume(seed);
    }

    function _pause(uint256 seed) private {
        bytes32 id = _pickFit(seed, _isPaid);
        Entry memory entry = _open(
            seed,
            Act(
                id,
                ITurnpike.pause.selector,
                keccak256("Pause(address subscriber,bytes32 idHash,uint16 version,uint256 deadline)"),
                "",
                ""
            )
        );
        bytes memory err = entry.err.length != 0 ? entry.err : _expectPause(id);
        if (err.length == 0) _saw(Premise.Pause);
        if (bytes4(err) == ITurnpike.VersionExhausted.selector) _saw(Premise.LastVersion);
        _pass(entry, err, id, _one(id));
    }

    function resume(uint256 seed) external drifting(seed) {
        _resume(seed);
    }

    function _resume(uint256 seed) private {
        uint256 roll = _draw(seed, 8);
        bytes32 id = _pickFit(
            seed,
            roll < 2
                ? _isShutOut
                : roll < 5
                    ? _isPaused
                    : _isExpired
        );
        Record storage r = records[id];
        uint256 maxCharge = type(uint256).max;
        if (r.planId != bytes32(0) && _draw(seed, 8) == 0) {
            maxCharge = _planOf(_nextPlanOf(r)).terms.amount - _draw(seed, 2);
        }
        Entry memory entry = _open(
            seed,
            Act(
                id,
                ITurnpike.resume.selector,
                keccak256(
                    "Resume(address subscriber,bytes32 idHash,address token,uint256 maxCharge,uint16 version,uint256 deadline)"
                ),
                abi.encode(maxCharge),
                abi.encode(_tokenOf(id), maxCharge)
            )
        );
        bool free = clock < r.paidThrough;
        bytes memory err = entry.err.length != 0 ? entry.err : _expectResume(id, maxCharge);
        if (err.length == 0 && free) _saw(Premise.ResumeWithoutCharge);
        if (entry.err.length == 0 && bytes4(err) == ITurnpike.PlanDeprecated.selector) {
            _saw(Premise.PaymentIntoDeprecated);
        }
        fickle.setEcho(id);
        _pass(entry, err, id, _one(id));
    }

    function _tokenOf(bytes32 id) private view returns (address) {
        return _planOf(records[id].planId).terms.token;
    }

    function _isPaused(bytes32 id) private view returns (bool) {
        return _statusAt(records[id], clock) == Status.PAUSED;
    }

    function _isExpired(bytes32 id) private view returns (bool) {
        return _statusAt(records[id], clock) == Status.EXPIRED;
    }

    function _isShutOut(bytes32 id) private view returns (bool) {
        return _planOf(_nextPlanOf(records[id])).deprecated && (_isPaused(id) || _isExpired(id));
    }

    function _isPaid(bytes32 id) internal view returns (bool) {
        Record storage r = records[id];
        return clock < r.paidThrough && !r.ending && _statusAt(r, clock) == Status.ACTIVE;
    }

    function _isIntro(bytes32 id) private view returns (bool) {
        return records[id].intro && _isPaid(id);
    }

    function _isPaidWithCap(bytes32 id) private view returns (bool) {
        return _isPaid(id) && _remaining(records[id]) != 0;
    }

    function _isPaidOnFickle(bytes32 id) private view returns (bool) {
        return _isPaid(id) && _planOf(records[id].planId).terms.token == address(fickle);
    }

    function _isOwed(bytes32 id) internal view returns (bool) {
        return _isDue(records[id]);
    }

    /// @notice Rarely, as much has to live on: a record ends, moves to another secret, or grows old.
    function depart(uint256 seed) external drifting(seed) {
        uint256 roll = _draw(seed, 5);
        if (roll == 3) return _rekey(seed);
        if (roll == 4) return _age(seed);
        _cancel(seed);
        // What is ending has little time left for it.
        _debit(seed);
        _debit(seed);
    }

    function _cancel(uint256 seed) private {
        bytes32 id = _pickFit(seed, fickle.fault() < FickleToken.Fault.ReturnsFalse ? _isPaid : _isPaidOnFickle);
        bool atPeriodEnd = _draw(seed, 4) != 0;
        Act memory act = Act(
            id,
            ITurnpike.cancel.selector,
            keccak256("Cancel(address subscriber,bytes32 idHash,bool atPeriodEnd,uint16 version,uint256 deadline)"),
            abi.encode(atPeriodEnd),
            ""
        );
        Entry memory entry = _open(seed, act);
        bool byProvider = records[id].planId != bytes32(0) && _draw(seed, 4) == 0;
        if (byProvider) {
            entry = _direct(act, _planOf(records[id].planId).provider);
            if (atPeriodEnd) entry.err = "";
        }
        bool scheduled = records[id].nextPlanId != bytes32(0);
        bytes memory err = entry.err.length != 0 ? entry.err : _expectCancel(id, atPeriodEnd, !byProvider);
        if (err.length == 0) _sawCancel(id, entry, byProvider);
        if (err.length == 0 && scheduled) _saw(Premise.ChangeDropped);
        _pass(entry, err, id, _one(id));
    }

    function _sawCancel(bytes32 id, Entry memory entry, bool byProvider) private {
        Record storage r = records[id];
        if (byProvider) _saw(Premise.CancelByProvider);
        else _saw(r.cancelled ? Premise.CancelNow : Premise.CancelAtPeriodEnd);
        if (entry.signed && entry.caller == _planOf(r.planId).provider) _saw(Premise.CancelRelayedByProvider);
        if (_planOf(r.planId).terms.token == address(fickle) && fickle.fault() >= FickleToken.Fault.ReturnsFalse) {
            _saw(Premise.CancelWhileTokenFails);
        }
    }

    function setMaxOverage(uint256 seed) external drifting(seed) {
        bytes32 id = _pick(seed);
        uint256 cap = _someCap(seed);
        Entry memory entry = _open(
            seed,
            Act(
                id,
                ITurnpike.setMaxOverage.selector,
                keccak256(
                    "SetMaxOverage(address subscriber,bytes32 idHash,address token,uint256 cap,uint16 version,uint256 deadline)"
                ),
                abi.encode(cap),
                abi.encode(_tokenOf(id), cap)
            )
        );
        uint256 before = records[id].cap;
        bytes memory err = entry.err.length != 0 ? entry.err : _expectSetMaxOverage(id, cap);
        if (err.length == 0 && cap < before) _saw(Premise.CapLowered);
        if (bytes4(err) == ITurnpike.CapTooLarge.selector) _saw(Premise.CapTooLarge);
        if (bytes4(err) == ITurnpike.VersionExhausted.selector) _saw(Premise.LastVersion);
        intent.cap = cap;
        _pass(entry, err, id, _one(id));
    }

    function _someCap(uint256 seed) internal returns (uint256) {
        uint256 roll = _draw(seed, 16);
        if (roll < 2) return 0;
        if (roll == 2) return 2 ** 88 - 1;
        if (roll < 5) return 2 ** 88;
        return 1 + _draw(seed, roll < 8 ? 1e3 : 1e8);
    }

    function changePlan(uint256 seed) external drifting(seed) {
        uint256 roll = _draw(seed, 6);
        bytes32 id = _pickFit(
            seed,
            roll == 0
                ? _isScheduled
                : roll == 1
                    ? _isIntro
                    : _isPaid
        );
        _change(seed, id);
    }

    function _change(uint256 seed, bytes32 id) internal {
        _changeTo(seed, id, _target(seed, id));
    }

    function _changeTo(uint256 seed, bytes32 id, bytes32 newPlanId) internal {
        uint256 cap = _someCap(seed);
        (bytes memory quoteErr, uint256 charge, uint256 credit) = _expectQuote(id, newPlanId);
        _compareQuote(id, newPlanId, quoteErr, charge, credit);
        uint256 maxCharge = _draw(seed, 8) == 0 && charge != 0 ? charge - _draw(seed, 2) : type(uint256).max;
        Move memory m = Move(id, newPlanId, cap, maxCharge, _shown(seed, newPlanId));
        bytes memory err = _sendMove(_open(seed, _actOf(m)), m);
        if (err.length != 0) _saw(Premise.PlanChangeRefused);
        if (bytes4(err) == ITurnpike.CapTooLarge.selector) _saw(Premise.CapTooLarge);
        if (bytes4(err) == ITurnpike.PlanDeprecated.selector) _saw(Premise.MoveToDeprecated);
        if (bytes4(err) == ITurnpike.CreditExceedsPrice.selector) _saw(Premise.PlanChangeCreditTooLarge);
    }

    struct Move {
        bytes32 id;
        bytes32 newPlanId;
        uint256 cap;
        uint256 maxCharge;
        Terms shown;
    }

    function _actOf(Move memory m) private pure returns (Act memory) {
        return
            Act(
                m.id,
                ITurnpike.changePlan.selector,
                CHANGE_PLAN,
                abi.encode(m.newPlanId, m.cap, m.maxCharge),
                abi.encodePacked(m.newPlanId, _termsWords(m.shown), m.cap, m.maxCharge)
            );
    }

    function _sendMove(Entry memory entry, Move memory m) private returns (bytes memory err) {
        err = _expectSigned(m.id, entry, m.newPlanId, m.shown);
        bool drops = records[m.id].nextPlanId != bytes32(0);
        if (err.length == 0) err = _expectChangePlan(m.id, m.newPlanId, m.cap, m.maxCharge);
        if (err.length == 0 && drops) _saw(Premise.ChangeDropped);
        (intent.cap, intent.planId) = (m.cap, m.newPlanId);
        if (entry.signed) intent.shown = m.shown;
        else intent.shown = _planOf(m.newPlanId).terms;
        fickle.setEcho(m.id);
        _pass(entry, err, m.id, _one(m.id));
    }

    bytes32 private constant CHANGE_PLAN = keccak256(
        "ChangePlan(address subscriber,bytes32 idHash,bytes32 newPlanId,address token,address payTo,uint256 amount,uint256 interval,string unit,uint256 maxOverage,uint256 maxCharge,uint16 version,uint256 deadline)"
    );

    /// @dev The plan's terms, or at times some that it does not have, or had before its payee moved.
    function _shown(uint256 seed, bytes32 planId) internal returns (Terms memory terms) {
        Plan storage plan = _planOf(planId);
        terms = plan.terms;
        uint256 roll = _draw(seed, 24);
        // Mostly what was signed before the payee moved, where one has.
        if (plan.firstPayTo != terms.payTo && _draw(seed, 2) == 0) {
            terms.payTo = plan.firstPayTo;
            _saw(Premise.SignedBeforeMove);
            return terms;
        }
        if (roll < 2) terms.payTo = payees[_draw(seed, 3)];
        else if (roll == 3) terms.amount += 1;
        else if (roll == 4) terms.interval += 1;
        else if (roll == 5) terms.months = !terms.months;
        else if (roll == 6) terms.token = address(0x9999);
    }

    /// @dev Of a message: token, payTo, amount, interval, unit.
    function _termsWords(Terms memory terms) internal pure returns (bytes memory) {
        bytes32 unit = keccak256(bytes(terms.months ? "months" : "seconds"));
        return abi.encode(terms.token, terms.payTo, terms.amount, terms.interval, unit);
    }

    /// @dev Of a message without a plan, whose unit is empty.
    function _noTermsWords(Terms memory terms) private pure returns (bytes memory) {
        return abi.encode(terms.token, terms.payTo, terms.amount, terms.interval, keccak256(""));
    }

    function _nextTerms(Terms memory terms) private pure returns (NextTerms memory) {
        return NextTerms(terms.token, terms.payTo, terms.amount, terms.interval, terms.months);
    }

    function _isTrue(Terms memory shown, bytes32 planId) internal view returns (bool) {
        return keccak256(_termsWords(shown)) == keccak256(_termsWords(_planOf(planId).terms));
    }

    /// @dev What the entry implies, where the message has terms: the plan comes after record and version, and before the
    /// signature.
    function _expectSigned(
        bytes32 id,
        Entry memory entry,
        bytes32 planId,
        Terms memory shown
    ) private returns (bytes memory) {
        address subscriber = records[id].subscriber;
        if (!entry.signed || subscriber == address(0)) return entry.err;
        if (bytes4(entry.err) == ITurnpike.StaleVersion.selector) return entry.err;
        if (planAt[planId] == 0) {
            entry.subscriber = address(0);
            return entry.err = abi.encodeWithSelector(ITurnpike.UnknownPlan.selector, planId);
        }
        if (entry.err.length != 0 || _isTrue(shown, planId)) return entry.err;
        _saw(Premise.ShownTermsFlawed);
        entry.subscriber = address(0);
        return entry.err = abi.encodeWithSelector(ITurnpike.InvalidSignature.selector, subscriber);
    }

    // ------------------------------------------------------------------ the next boundary

    /// @notice The subscriber sets an end, or schedules a change, or drops either.
    function setNext(uint256 seed) external drifting(seed) {
        uint256 roll = _draw(seed, 4);
        bytes32 id = _pickFit(
            seed,
            roll == 0
                ? _isScheduled
                : roll == 1
                    ? _isPaid
                    : _isPaidWithCap
        );
        Record storage r = records[id];
        uint256 until = _someUntil(seed, id);
        roll = _draw(seed, 8);
        bytes32 nextPlanId = roll < 5 ? _target(seed, id) : bytes32(0);
        if (roll == 5) nextPlanId = r.nextPlanId;
        Terms memory shown = _shown(seed, nextPlanId);
        Entry memory entry = _open(
            seed,
            Act(
                id,
                ITurnpike.setNext.selector,
                keccak256(
                    "SetNext(address subscriber,bytes32 idHash,uint40 until,bytes32 nextPlanId,address token,address payTo,uint256 amount,uint256 interval,string unit,uint16 version,uint256 deadline)"
                ),
                abi.encode(until, nextPlanId, _nextTerms(shown)),
                abi.encodePacked(
                    until,
                    nextPlanId,
                    nextPlanId == bytes32(0) ? _noTermsWords(shown) : _termsWords(shown)
                )
            )
        );
        bytes memory err = entry.err.length != 0 ? entry.err : _expectSetNext(id, until, nextPlanId, shown);
        if (bytes4(err) == ITurnpike.TermsDiffer.selector) _saw(Premise.TermsDiffer);
        if (err.length == 0 && until != 0) _saw(Premise.UntilSet);
        if (err.length == 0 && nextPlanId != bytes32(0)) _saw(Premise.ChangeScheduled);
        (intent.until, intent.nextPlanId, intent.shown) = (until, nextPlanId, shown);
        _pass(entry, err, id, _one(id));
        if (err.length == 0 && _draw(seed, 2) == 0) _follow(seed, id);
    }

    /// @dev Time passes until what was set counts: debits after the end, or the charge of the changed period.
    function _follow(uint256 seed, bytes32 id) private {
        Record storage r = records[id];
        if (r.until != 0 && r.until < r.paidThrough) {
            clock = r.until + _draw(seed, r.paidThrough - r.until);
            vm.warp(clock);
            _debitOf(seed, id);
            _debitOf(seed, id);
        } else if (r.nextPlanId != bytes32(0) && clock < r.paidThrough) {
            clock = r.paidThrough + _draw(seed, 2 days + _planOf(r.planId).terms.grace);
            vm.warp(clock);
            _collect(id);
        }
    }

    /// @dev By the subscriber itself, to a plan that will be closed before the change is due.
    function _schedule(bytes32 id, bytes32 nextPlanId) internal {
        Terms memory shown = _planOf(nextPlanId).terms;
        bytes memory data = abi.encodeCall(ITurnpike.setNext, (id, 0, nextPlanId, _nextTerms(shown), _unsigned()));
        bytes memory err = _expectSetNext(id, 0, nextPlanId, shown);
        (intent.subscriber, intent.nextPlanId, intent.shown) = (records[id].subscriber, nextPlanId, shown);
        _send(records[id].subscriber, data, err, _one(id));
    }

    function _isScheduled(bytes32 id) private view returns (bool) {
        return records[id].nextPlanId != bytes32(0) && _statusAt(records[id], clock) != Status.CANCELLED;
    }

    /// @dev None; or now, which is refused; or near the period's end or the one after it, and somewhere between.
    function _someUntil(uint256 seed, bytes32 id) internal returns (uint256 until) {
        Record storage r = records[id];
        uint256 roll = _draw(seed, 8);
        if (roll < 3) return 0;
        if (roll == 3) return clock - _draw(seed, 2);
        uint256 place = r.paidThrough > clock ? r.paidThrough : clock + 1 + _draw(seed, 400 days);
        if (roll == 4) return place + _draw(seed, 3) - 1;
        if (roll < 7) return clock + 1 + _draw(seed, place - clock);
        return place + _draw(seed, 400 days);
    }

    /// @dev Mostly a plan of the same provider and token, and mostly a dearer one, which costs more than it
    /// credits; at times one that is closed.
    function _target(uint256 seed, bytes32 id) private returns (bytes32 target) {
        uint256 place = _draw(seed, plans.length);
        target = plans[place].id;
        bytes32 own = records[id].planId;
        uint256 roll = _draw(seed, 12);
        if (own == bytes32(0) || roll == 0) return target;
        for (uint256 i = 0; i < plans.length; ++i) {
            Plan storage next = plans[(place + i) % plans.length];
            if (!_isKin(_planOf(own), next)) continue;
            target = next.id;
            if (roll < 3 ? next.deprecated : _isDearer(_planOf(own), next)) return target;
        }
    }

    function _isDearer(Plan storage plan, Plan storage next) private view returns (bool) {
        return !next.deprecated && next.terms.amount >= plan.terms.amount;
    }

    function _isKin(Plan storage plan, Plan storage next) internal view returns (bool) {
        return next.id != plan.id && next.provider == plan.provider && next.terms.token == plan.terms.token;
    }

    /// @dev `quoteChange` must return exactly what `changePlan` does.
    function _compareQuote(
        bytes32 id,
        bytes32 newPlanId,
        bytes memory err,
        uint256 charge,
        uint256 credit
    ) private view {
        bytes memory expected = err.length != 0 ? err : abi.encode(charge, credit);
        (, bytes memory actual) = address(turnpike).staticcall(abi.encodeCall(ITurnpike.quoteChange, (id, newPlanId)));
        if (keccak256(actual) != keccak256(expected)) revert Unexpected("quote", expected, actual);
    }

    function _rekey(uint256 seed) private {
        bytes32 id = _pick(seed);
        bytes32 newSecretHash = keccak256(abi.encode("rekey", seed, step));
        bytes32 newId = keccak256(abi.encode(records[id].subscriber, newSecretHash));
        if (_draw(seed, 16) == 0 && secretHashOf[id] != bytes32(0)) {
            // Its own, which is taken.
            newSecretHash = secretHashOf[id];
            newId = id;
        } else if (voids.length != 0 && _draw(seed, 8) == 0) {
            // One that its subscriber has voided, if it is the same one.
            newSecretHash = secretHashOf[voids[_draw(seed, voids.length)]];
            newId = keccak256(abi.encode(records[id].subscriber, newSecretHash));
        }
        Entry memory entry = _open(
            seed,
            Act(
                id,
                ITurnpike.rekey.selector,
                keccak256(
                    "Rekey(address subscriber,bytes32 idHash,bytes32 newSecretHash,uint16 version,uint256 deadline)"
                ),
                abi.encode(newSecretHash),
                ""
            )
        );
        if (entry.err.length == 0 && ids.length >= MOST_RECORDS) return;
        bytes memory err = entry.err.length != 0 ? entry.err : _expectRekey(id, newId);
        if (err.length == 0) secretHashOf[newId] = newSecretHash;
        _pass(entry, err, id, id == newId ? _one(id) : _two(id, newId));
    }

    uint256 internal constant MOST_RECORDS = 30;
    mapping(bytes32 idHash => bytes32) internal secretHashOf;

    /// @notice Sends a signature again that was accepted before. It must never serve twice.
    function replay(uint256 seed) external atClock {
        uint256 roll = _draw(seed, 8);
        if (roll == 0) return _trespass(seed);
        if (roll < 4) return _replaySignup(seed);
        if (spentSignatures.length == 0) return;
        Spent storage spent = spentSignatures[_draw(seed, spentSignatures.length)];
        bytes memory err = abi.encodeWithSelector(
            ITurnpike.StaleVersion.selector,
            spent.id,
            spent.version,
            uint16(records[spent.id].version)
        );
        _saw(Premise.SignatureReplayed);
        _send(RELAYER, spent.data, err, _one(spent.id));
    }

    function _replaySignup(uint256 seed) internal virtual;

    /// @dev The frames of batch items are for Turnpike itself; through them anyone could pose as an operator.
    function _trespass(uint256 seed) private {
        bytes32 id = _pick(seed);
        address provider = records[id].planId == bytes32(0) ? STRANGER : _planOf(records[id].planId).provider;
        bytes memory err = abi.encodeWithSelector(ITurnpike.OnlySelf.selector, STRANGER);
        _saw(Premise.ActOfStranger);
        _send(STRANGER, abi.encodeWithSignature("renewInner(bytes32)", id), err, _one(id));
        bytes memory data = abi.encodeWithSignature(
            "debitInner(bytes32,uint256,uint256,address)",
            id,
            1,
            records[id].debits,
            provider
        );
        _send(STRANGER, data, err, _one(id));
    }

    function _debit(uint256 seed) internal virtual;

    function _debitOf(uint256 seed, bytes32 id) internal virtual;

    function _collect(bytes32 id) internal virtual;

    /// @dev Sixty-five thousand acts later: every act but cancel and rekey must be refused.
    function _age(uint256 seed) private {
        bytes32 id = _pick(seed);
        Record storage r = records[id];
        if (r.subscriber == address(0) || _statusAt(r, clock) == Status.CANCELLED) return;
        bytes32 slot = slotsOf[id][0];
        uint256 word = uint256(vm.load(address(turnpike), slot));
        uint256 versionAt = 228;
        vm.store(address(turnpike), slot, bytes32(word | (LAST_VERSION << versionAt)));
        r.version = LAST_VERSION;
        rows[id].version = LAST_VERSION;
        bytes memory err = abi.encodeWithSelector(ITurnpike.VersionExhausted.selector, id);
        _saw(Premise.LastVersion);
        _send(r.subscriber, abi.encodeCall(ITurnpike.setMaxOverage, (id, 1, _unsigned())), err, _one(id));
    }

    /// @notice Several acts of one subscriber in one transaction: renew what is due, then pause it.
    function renewAndPause(uint256 seed) external drifting(seed) {
        bytes32 id = _pickFit(seed, _isOwed);
        Record storage r = records[id];
        if (r.planId == bytes32(0) || r.version == LAST_VERSION) return;
        bytes memory err = _expectRenew(id);
        if (err.length == 0) {
            _expectPause(id);
            _saw(Premise.Multicall);
        }
        bytes[] memory calls = new bytes[](2);
        calls[0] = abi.encodeCall(ITurnpike.renew, (id));
        calls[1] = abi.encodeCall(ITurnpike.pause, (id, _unsigned()));
        intent.subscriber = r.subscriber;
        fickle.setEcho(bytes32(0));
        _send(r.subscriber, abi.encodeCall(ITurnpike.multicall, (calls)), err, _one(id));
    }
}
