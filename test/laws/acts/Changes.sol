// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike, Permit, Status, Terms} from "../../../contracts/interfaces/ITurnpike.sol";
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
        } else {
            _passToBoundary(seed);
        }
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
                ITurnpike.pauseBySig.selector,
                keccak256("Pause(address subscriber,bytes32 idHash,uint16 version,uint256 deadline)"),
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
        if (r.subscriber != address(0) && _draw(seed, 8) == 0) {
            maxCharge = _planOf(r.planId).terms.amount - _draw(seed, 2);
        }
        Entry memory entry = _open(
            seed,
            Act(
                id,
                ITurnpike.resume.selector,
                ITurnpike.resumeBySig.selector,
                keccak256(
                    "Resume(address subscriber,bytes32 idHash,uint256 maxCharge,uint16 version,uint256 deadline)"
                ),
                abi.encode(maxCharge)
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

    function _isPaused(bytes32 id) private view returns (bool) {
        return _statusAt(records[id], clock) == Status.PAUSED;
    }

    function _isExpired(bytes32 id) private view returns (bool) {
        return _statusAt(records[id], clock) == Status.EXPIRED;
    }

    function _isShutOut(bytes32 id) private view returns (bool) {
        return _planOf(records[id].planId).deprecated && (_isPaused(id) || _isExpired(id));
    }

    function _isPaid(bytes32 id) private view returns (bool) {
        Record storage r = records[id];
        return clock < r.paidThrough && !r.ending && _statusAt(r, clock) == Status.ACTIVE;
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
            ITurnpike.cancelBySig.selector,
            keccak256("Cancel(address subscriber,bytes32 idHash,bool atPeriodEnd,uint16 version,uint256 deadline)"),
            abi.encode(atPeriodEnd)
        );
        Entry memory entry = _open(seed, act);
        bool byProvider = records[id].subscriber != address(0) && _draw(seed, 4) == 0;
        if (byProvider) {
            entry = _direct(act, _planOf(records[id].planId).provider);
            if (atPeriodEnd) entry.err = "";
        }
        bytes memory err = entry.err.length != 0 ? entry.err : _expectCancel(id, atPeriodEnd, !byProvider);
        if (err.length == 0) _sawCancel(id, entry, byProvider);
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
                ITurnpike.setMaxOverageBySig.selector,
                keccak256(
                    "SetMaxOverage(address subscriber,bytes32 idHash,uint256 cap,uint16 version,uint256 deadline)"
                ),
                abi.encode(cap)
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
        bytes32 id = _pickFit(seed, _isPaid);
        bytes32 newPlanId = _target(seed, id);
        uint256 cap = _someCap(seed);
        (bytes memory quoteErr, uint256 charge, uint256 credit) = _expectQuote(id, newPlanId);
        _compareQuote(id, newPlanId, quoteErr, charge, credit);
        uint256 maxCharge = _draw(seed, 8) == 0 && charge != 0 ? charge - _draw(seed, 2) : type(uint256).max;
        Entry memory entry = _open(
            seed,
            Act(
                id,
                ITurnpike.changePlan.selector,
                ITurnpike.changePlanBySig.selector,
                keccak256(
                    "ChangePlan(address subscriber,bytes32 idHash,bytes32 newPlanId,uint256 maxOverage,uint256 maxCharge,uint16 version,uint256 deadline)"
                ),
                abi.encode(newPlanId, cap, maxCharge)
            )
        );
        bytes memory err = entry.err.length != 0 ? entry.err : _expectChangePlan(id, newPlanId, cap, maxCharge);
        if (err.length != 0) _saw(Premise.PlanChangeRefused);
        if (bytes4(err) == ITurnpike.CapTooLarge.selector) _saw(Premise.CapTooLarge);
        if (bytes4(err) == ITurnpike.PlanDeprecated.selector) _saw(Premise.MoveToDeprecated);
        if (bytes4(err) == ITurnpike.CreditExceedsPrice.selector) _saw(Premise.PlanChangeCreditTooLarge);
        (intent.cap, intent.planId) = (cap, newPlanId);
        fickle.setEcho(id);
        _pass(entry, err, id, _one(id));
    }

    /// @dev Mostly a plan of the same provider, token and payee, and mostly a dearer one, which costs more than it
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

    function _isKin(Plan storage plan, Plan storage next) private view returns (bool) {
        return
            next.id != plan.id &&
            next.provider == plan.provider &&
            next.terms.payTo == plan.terms.payTo &&
            next.terms.token == plan.terms.token;
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
        }
        Entry memory entry = _open(
            seed,
            Act(
                id,
                ITurnpike.rekey.selector,
                ITurnpike.rekeyBySig.selector,
                keccak256(
                    "Rekey(address subscriber,bytes32 idHash,bytes32 newSecretHash,uint16 version,uint256 deadline)"
                ),
                abi.encode(newSecretHash)
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
        address provider = records[id].subscriber == address(0) ? STRANGER : _planOf(records[id].planId).provider;
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

    /// @dev Sixty-five thousand acts later: every act but cancel and rekey must be refused.
    function _age(uint256 seed) private {
        bytes32 id = _pick(seed);
        Record storage r = records[id];
        if (r.subscriber == address(0) || _statusAt(r, clock) == Status.CANCELLED) return;
        bytes32 slot = slotsOf[id][0];
        uint256 word = uint256(vm.load(address(turnpike), slot));
        uint256 versionAt = 232;
        vm.store(address(turnpike), slot, bytes32(word | (LAST_VERSION << versionAt)));
        r.version = LAST_VERSION;
        rows[id].version = LAST_VERSION;
        bytes memory err = abi.encodeWithSelector(ITurnpike.VersionExhausted.selector, id);
        _saw(Premise.LastVersion);
        _send(r.subscriber, abi.encodeCall(ITurnpike.setMaxOverage, (id, 1)), err, _one(id));
    }

    /// @notice Several acts of one subscriber in one transaction: renew what is due, then pause it.
    function renewAndPause(uint256 seed) external drifting(seed) {
        bytes32 id = _pickFit(seed, _isOwed);
        Record storage r = records[id];
        if (r.subscriber == address(0) || r.version == LAST_VERSION) return;
        bytes memory err = _expectRenew(id);
        if (err.length == 0) {
            _expectPause(id);
            _saw(Premise.Multicall);
        }
        bytes[] memory calls = new bytes[](2);
        calls[0] = abi.encodeCall(ITurnpike.renew, (id));
        calls[1] = abi.encodeCall(ITurnpike.pause, (id));
        intent.subscriber = r.subscriber;
        fickle.setEcho(bytes32(0));
        _send(r.subscriber, abi.encodeCall(ITurnpike.multicall, (calls)), err, _one(id));
    }
}
