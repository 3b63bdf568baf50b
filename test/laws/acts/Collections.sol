// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Debit, ITurnpike, Status} from "../../../contracts/interfaces/ITurnpike.sol";
import {SubscriptionState} from "../../../contracts/interfaces/ITurnpikeLens.sol";
import {FickleToken} from "../doubles/FickleToken.sol";
import {Premise} from "../Premises.sol";
import {vm} from "../Vm.sol";
import {Unexpected} from "../World.sol";
import {Signups} from "./Signups.sol";

/// @notice Renewals and debits: single, in batches, poisoned, repeated, and starved of gas.
abstract contract Collections is Signups {
    /// @dev What an item of a batch may cost: its frame, and a little around it.
    uint256 private constant MOST_PER_ITEM = 480_000;
    uint256 private constant MOST_AROUND = 150_000;

    function _isEnding(bytes32 id) private view returns (bool) {
        Record storage r = records[id];
        bool bounded = r.ending || (r.until != 0 && r.until <= clock);
        return bounded && clock < records[id].paidThrough && _remaining(records[id]) != 0;
    }

    function _isMetered(bytes32 id) private view returns (bool) {
        return _remaining(records[id]) != 0 && _statusAt(records[id], clock) == Status.ACTIVE;
    }

    function _isMeteredInGrace(bytes32 id) private view returns (bool) {
        return clock >= records[id].paidThrough && _isMetered(id);
    }

    // ------------------------------------------------------------------ renewals

    function renew(uint256 seed) external drifting(seed) {
        _collect(_pickFit(seed, _isOwed));
    }

    function _collect(bytes32 id) internal override {
        Record storage r = records[id];
        bool promised = _isDue(r) && _isFunded(r) && _tokenWorks(r);
        if (records[id].cancelled) _saw(Premise.ActOnCancelled);
        bytes memory err = _expectRenew(id);
        if (promised) {
            _saw(Premise.LivenessTried);
            if (err.length != 0) _breach(23, "the model refuses a renewal that is promised");
        }
        _sawRenewal(id, err);
        fickle.setEcho(id);
        _send(STRANGER, abi.encodeCall(ITurnpike.renew, (id)), err, _one(id));
    }

    function _tokenWorks(Record storage r) internal view returns (bool) {
        return _planOf(r.planId).terms.token == address(sound) || fickle.fault() < FickleToken.Fault.ReturnsFalse;
    }

    function _sawRenewal(bytes32 id, bytes memory err) private {
        if (err.length == 0) _saw(Premise.RenewalByStranger);
        else if (bytes4(err) == ITurnpike.RenewalNotDue.selector) _saw(Premise.RenewalTooEarly);
        else if (_statusAt(records[id], clock) == Status.EXPIRED) _saw(Premise.RenewalOfExpired);
    }

    function renewBatch(uint256 seed) external drifting(seed) {
        bytes32[] memory batch = new bytes32[](1 + _draw(seed, 7));
        for (uint256 i = 0; i < batch.length; ++i) {
            batch[i] = i != 0 && _draw(seed, 8) == 0 ? batch[i - 1] : _pickFit(seed, _isOwed);
        }
        fickle.setEcho(bytes32(0));
        bytes memory data = abi.encodeCall(ITurnpike.renewBatch, (batch));
        bytes[] memory singles = new bytes[](batch.length);
        for (uint256 i = 0; i < batch.length; ++i) singles[i] = abi.encodeCall(ITurnpike.renew, (batch[i]));
        Trial memory trial = _try(seed, STRANGER, data, singles, batch);

        bytes4[] memory reasons = new bytes4[](batch.length);
        for (uint256 i = 0; i < batch.length; ++i) {
            bytes memory err = _expectRenew(batch[i]);
            _sawRenewal(batch[i], err);
            reasons[i] = bytes4(err);
            if (i != 0 && batch[i] == batch[i - 1] && reasons[i - 1] == 0) _saw(Premise.DuplicateInBatch);
        }
        _sendBatch(STRANGER, data, reasons, batch, trial);
    }

    // ------------------------------------------------------------------ debits

    function _someDebit(uint256 seed) private returns (Debit memory d) {
        uint256 roll = _draw(seed, 8);
        d.idHash = _pickFit(
            seed,
            roll < 2
                ? _isEnding
                : roll < 4
                    ? _isMeteredInGrace
                    : _isMetered
        );
        Record storage r = records[d.idHash];
        uint256 remaining = _remaining(r);
        roll = _draw(seed, 12);
        if (roll == 0) d.amount = 0;
        else if (roll < 4) d.amount = remaining;
        else if (roll < 6) d.amount = remaining + 1;
        else if (roll == 6) d.amount = type(uint256).max - _draw(seed, 2);
        else d.amount = 1 + _draw(seed, remaining / 2 + 1);
        d.index = r.debits;
        roll = _draw(seed, 12);
        if (roll == 0) d.index += 1;
        if (roll < 3 && d.index != 0) d.index -= 1;
    }

    /// @dev Mostly an operator of the plan.
    function _someDebitor(uint256 seed, bytes32 id) private returns (address) {
        uint256 roll = _draw(seed, 12);
        if (roll == 0) return STRANGER;
        if (roll < 3 || records[id].planId == bytes32(0)) return operators[_draw(seed, 2)];
        if (roll == 3) return providers[_draw(seed, 2)];
        return _planOf(records[id].planId).provider;
    }

    function debit(uint256 seed) external drifting(seed) {
        if (_draw(seed, 3) == 0) _passIntoGrace(seed);
        _debit(seed);
    }

    function _passIntoGrace(uint256 seed) private {
        Record storage r = records[_pickFit(seed, _isMetered)];
        if (r.planId == bytes32(0) || r.paidThrough < clock) return;
        uint256 grace = _planOf(r.planId).terms.grace;
        if (grace != 0) clock = r.paidThrough + _draw(seed, grace);
        vm.warp(clock);
    }

    function _debit(uint256 seed) internal override {
        _sendDebit(seed, _someDebit(seed));
    }

    function _debitOf(uint256 seed, bytes32 id) internal override {
        uint256 amount = 1 + _draw(seed, _remaining(records[id]) / 2 + 1);
        _sendDebit(seed, Debit(id, amount, records[id].debits));
    }

    function _sendDebit(uint256 seed, Debit memory d) private {
        address caller = _someDebitor(seed, d.idHash);
        if (records[d.idHash].cancelled) _saw(Premise.ActOnCancelled);
        fickle.setEcho(_isDue(records[d.idHash]) ? bytes32(0) : d.idHash);
        bytes memory err = _expectDebit(caller, d.idHash, d.amount, d.index);
        _sawDebit(err);
        _send(caller, abi.encodeCall(ITurnpike.debit, (d.idHash, d.amount, d.index)), err, _one(d.idHash));
    }

    function _sawDebit(bytes memory err) private {
        bytes4 reason = bytes4(err);
        if (reason == ITurnpike.AllowanceExhausted.selector) _saw(Premise.DebitAboveTheCap);
        else if (reason == ITurnpike.StaleDebit.selector) _saw(Premise.DebitStale);
        else if (reason == ITurnpike.NotOperator.selector) _saw(Premise.DebitByStranger);
    }

    function debitBatch(uint256 seed) external drifting(seed) {
        uint256 count = 1 + _draw(seed, 4);
        Debit[] memory batch = new Debit[](count);
        bytes32[] memory subjects = new bytes32[](count);
        bytes[] memory singles = new bytes[](count);
        for (uint256 i = 0; i < count; ++i) {
            batch[i] = i != 0 && _draw(seed, 6) == 0 ? batch[i - 1] : _someDebit(seed);
            subjects[i] = batch[i].idHash;
            singles[i] = abi.encodeCall(ITurnpike.debit, (batch[i].idHash, batch[i].amount, batch[i].index));
        }
        address caller = _someDebitor(seed, subjects[0]);
        fickle.setEcho(bytes32(0));
        bytes memory data = abi.encodeCall(ITurnpike.debitBatch, (batch));
        Trial memory trial = _try(seed, caller, data, singles, subjects);

        bytes4[] memory reasons = new bytes4[](count);
        for (uint256 i = 0; i < count; ++i) {
            bytes memory err = _expectDebit(caller, batch[i].idHash, batch[i].amount, batch[i].index);
            _sawDebit(err);
            reasons[i] = bytes4(err);
        }
        _sendBatch(caller, data, reasons, subjects, trial);
    }

    // ------------------------------------------------------------------ batches

    /// @dev What the same batch came to when it was tried otherwise, before it was sent.
    struct Trial {
        bool starved; // was tried with little gas, and ended well
        bytes starvedAnswer;
        bool singly; // was tried as singles
        bytes32 singlesDigest;
    }

    /// @dev At times, first does the same with little gas, or as singles; both are undone again.
    function _try(
        uint256 seed,
        address caller,
        bytes memory data,
        bytes[] memory singles,
        bytes32[] memory subjects
    ) private returns (Trial memory trial) {
        uint256 roll = _draw(seed, 10);
        if (roll > 2) return trial;
        uint256 gasGiven = 30_000 + _draw(seed, 500_000 * (subjects.length + 1));
        uint256 snapshot = vm.snapshotState();
        if (roll == 0) {
            vm.prank(caller);
            (trial.starved, trial.starvedAnswer) = address(turnpike).call{gas: gasGiven}(data);
        } else {
            trial.singly = true;
            for (uint256 i = 0; i < singles.length; ++i) {
                vm.prank(caller);
                (bool ok, ) = address(turnpike).call{gas: AMPLE_GAS}(singles[i]);
                ok; // a failure is skipped, as the batch skips it
            }
            trial.singlesDigest = _digest(subjects);
        }
        vm.revertToStateAndDelete(snapshot);
        _saw(roll == 0 ? Premise.BatchStarved : Premise.BatchAgainstSingles);
    }

    /// @dev The records and all the money.
    function _digest(bytes32[] memory subjects) private view returns (bytes32 digest) {
        digest = keccak256(abi.encode(lens.getStates(subjects)));
        for (uint256 i = 0; i < subscribers.length; ++i) {
            address self = subscribers[i].self;
            digest = keccak256(abi.encode(digest, _balance(address(sound), self), _balance(address(fickle), self)));
        }
        for (uint256 i = 0; i < payees.length; ++i) {
            digest = keccak256(
                abi.encode(digest, _balance(address(sound), payees[i]), _balance(address(fickle), payees[i]))
            );
        }
    }

    function _sendBatch(
        address caller,
        bytes memory data,
        bytes4[] memory reasons,
        bytes32[] memory subjects,
        Trial memory trial
    ) private {
        bytes32[] memory before = new bytes32[](subjects.length);
        for (uint256 i = 0; i < subjects.length; ++i)
            before[i] = slotsOf[subjects[i]][0] == 0 ? bytes32(0) : _words(subjects[i]);
        bytes memory answer;
        SubscriptionState[] memory states;
        {
            bool ok;
            intent.caller = caller;
            (ok, answer, states) = _watched(data, subjects, AMPLE_GAS);
            delete intent;
            if (!ok) revert Unexpected("batch", abi.encode(reasons), answer);
        }
        bytes4[] memory actual = abi.decode(answer, (bytes4[]));
        if (keccak256(abi.encode(actual)) != keccak256(abi.encode(reasons))) {
            revert Unexpected("reasons", abi.encode(reasons), abi.encode(actual));
        }
        _judgeBatch(reasons, subjects, before);
        for (uint256 i = 0; i < subjects.length; ++i) _settleUp(subjects[i], states[i]);
        if (trial.starved && keccak256(trial.starvedAnswer) != keccak256(answer)) {
            _breach(16, "little gas changed a batch's outcome");
        }
        if (trial.singly && trial.singlesDigest != _digest(subjects)) {
            _breach(16, "a batch differs from its singles");
        }
    }

    function _judgeBatch(bytes4[] memory reasons, bytes32[] memory subjects, bytes32[] memory before) private {
        uint256 successes;
        for (uint256 i = 0; i < reasons.length; ++i) {
            if (reasons[i] == 0) {
                ++successes;
                continue;
            }
            _saw(Premise.BatchItemFailed);
            _sawMoneyMissing(reasons[i]);
            if (reasons[i] == ITurnpike.TransferFailed.selector) _saw(Premise.ItemPoisoned);
            bool alone = true;
            for (uint256 k = 0; k < subjects.length; ++k) {
                if (subjects[k] == subjects[i] && reasons[k] == 0) alone = false;
            }
            if (alone && before[i] != bytes32(0) && before[i] != _words(subjects[i])) {
                _breach(17, "a failed item changed storage");
            }
        }
        if (claimed != successes) _breach(17, "transfers and successes of a batch differ in number");
        if (gasUsed > reasons.length * MOST_PER_ITEM + MOST_AROUND) _breach(18, "an item cost more than its frame");
    }
}
