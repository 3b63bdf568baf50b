// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike, SubscriptionState, Terms} from "../../contracts/interfaces/ITurnpike.sol";
import {Premise, Premises} from "./Premises.sol";
import {Replay} from "./Replay.sol";
import {Log, vm} from "./Vm.sol";

/// @notice Judges the laws by what can be seen from outside: logs, transfers and the slots that were written. It knows
/// who signed or called for what, and does not know the model.
abstract contract Witness is Replay, Premises {
    /// @dev One subscription through all its rekeys.
    struct Life {
        bytes32 planId; // that its subscriber agreed to
        uint256 since; // start of the first period on this plan
        uint256 charges; // on this plan
        uint256 paidThrough;
        uint256 cap; // that its subscriber granted
        uint256 highestCap; // of this cycle
        uint256 paid; // for this cycle
        uint256 debited; // in this cycle
        uint256 debits; // ever
        uint256 renewedIn; // the last step that renewed it
        uint256 debitedIn; // the last step that debited it
        bool ending;
        bool over;
    }

    /// @dev What a step is meant to do, told before it is done.
    struct Intent {
        address caller;
        address subscriber; // who called or validly signed; zero: nobody did
        bytes32 planId; // that the subscriber agrees to with it
        uint256 cap; // that the subscriber grants with it
        bool ofPlans; // an act on plans, not on records
    }

    struct Movement {
        address token;
        address from;
        address to;
        uint256 amount;
        bool matched;
    }

    Intent internal intent;
    uint256 internal step;
    mapping(uint256 law => string) internal breaches;
    mapping(bytes32 idHash => uint256 life) internal lifeOf; // 0: unknown
    mapping(uint256 life => Life) internal lives;
    uint256 internal lifeCount;
    mapping(bytes32 idHash => uint256) internal lastVersion;
    mapping(bytes32 idHash => bool) internal tombstone; // cancelled at once, or rekeyed away
    bytes32[] internal tombstones;
    /// @dev What each payee is owed by all charges and debits ever, for each token.
    mapping(address token => mapping(address payee => uint256)) internal owed;
    mapping(bytes32 slot => bytes32 idHash) internal slotOwner;
    mapping(bytes32 idHash => bytes32[2]) internal slotsOf; // the record's, the allowance's
    uint256 internal claimed; // charges and debits in the last step
    uint256 internal gasUsed; // by the last step

    function _breach(uint256 law, string memory what) internal {
        if (bytes(breaches[law]).length == 0) breaches[law] = what;
    }

    // ------------------------------------------------------------------ one step

    /// @dev Runs `data` as `intent.caller`, watched. `subjects` are the records it may touch; `states` what they are then.
    function _watched(
        bytes memory data,
        bytes32[] memory subjects,
        uint256 gasGiven
    ) internal returns (bool ok, bytes memory answer, SubscriptionState[] memory states) {
        ++step;
        for (uint256 i = 0; i < subjects.length; ++i) _learnSlots(subjects[i]);
        vm.recordLogs();
        vm.record();
        vm.prank(intent.caller);
        gasUsed = gasleft();
        (ok, answer) = address(turnpike).call{gas: gasGiven}(data);
        gasUsed -= gasleft();
        (, bytes32[] memory writes) = vm.accesses(address(turnpike));
        vm.stopRecord();
        Log[] memory logs = vm.getRecordedLogs();
        _judgeWrites(writes, subjects);
        // What was recorded includes the logs of frames that reverted.
        bytes4 selector = bytes4(data);
        if (!ok) delete logs;
        else if (selector == ITurnpike.renewBatch.selector || selector == ITurnpike.debitBatch.selector) {
            logs = _surviving(logs, abi.decode(answer, (bytes4[])));
        }
        _judgeLogs(logs);
        if (subjects.length == 0) return (ok, answer, states);
        states = turnpike.getStates(subjects);
        for (uint256 i = 0; i < subjects.length; ++i) _judgeRecord(subjects[i], states[i]);
    }

    /// @dev Leaves out the logs of items that failed. An item's logs begin with one of Turnpike's, which the token's
    /// follow; a failed item's are those up to the log that tells of its failure.
    function _surviving(Log[] memory logs, bytes4[] memory reasons) private view returns (Log[] memory kept) {
        kept = new Log[](logs.length);
        uint256 count;
        uint256 next;
        for (uint256 i = 0; i < reasons.length; ++i) {
            if (reasons[i] == 0) {
                kept[count++] = logs[next++];
                while (next < logs.length && logs[next].emitter != address(turnpike)) kept[count++] = logs[next++];
            } else {
                while (!_tellsFailure(logs[next])) ++next;
                kept[count++] = logs[next++];
            }
        }
        assembly {
            mstore(kept, count)
        }
    }

    function _tellsFailure(Log memory log) private view returns (bool) {
        bytes32 topic = log.topics[0];
        return
            log.emitter == address(turnpike) &&
            (topic == ITurnpike.RenewalFailed.selector || topic == ITurnpike.DebitFailed.selector);
    }

    /// @dev Finds where a record and its allowance are stored, by looking which slots their views read.
    function _learnSlots(bytes32 id) private {
        if (slotsOf[id][0] != bytes32(0)) return;
        vm.record();
        turnpike.statusOf(id);
        (bytes32[] memory reads, ) = vm.accesses(address(turnpike));
        bytes32 own = reads[0];
        vm.record();
        turnpike.getAllowance(id);
        (reads, ) = vm.accesses(address(turnpike));
        slotsOf[id] = [own, reads[0] == own ? reads[1] : reads[0]];
        slotOwner[own] = id;
        slotOwner[slotsOf[id][1]] = id;
    }

    /// @dev The two words, as stored.
    function _words(bytes32 id) internal view returns (bytes32) {
        bytes32[2] storage slots = slotsOf[id];
        return keccak256(abi.encode(vm.load(address(turnpike), slots[0]), vm.load(address(turnpike), slots[1])));
    }

    function _judgeWrites(bytes32[] memory writes, bytes32[] memory subjects) private {
        for (uint256 i = 0; i < writes.length; ++i) {
            bytes32 owner = slotOwner[writes[i]];
            if (owner == bytes32(0)) {
                if (!intent.ofPlans) _breach(15, "an act on a subscription wrote elsewhere");
                continue;
            }
            bool mine = false;
            for (uint256 k = 0; k < subjects.length; ++k) mine = mine || subjects[k] == owner;
            if (!mine) _breach(20, "an act wrote another subscription's record");
        }
    }

    function _judgeRecord(bytes32 id, SubscriptionState memory state) private {
        uint256 version = state.subscription.version;
        if (version < lastVersion[id]) _breach(13, "a version went down");
        lastVersion[id] = version;
        Life storage life = lives[lifeOf[id]];
        if (lifeOf[id] == 0 || tombstone[id]) return;
        if (state.subscription.paidThrough != life.paidThrough) _breach(4, "paidThrough moved without a charge");
        if (life.debited == 0 && state.allowance.spent != 0) _breach(9, "a cycle began with something spent");
    }

    // ------------------------------------------------------------------ what the logs say

    function _judgeLogs(Log[] memory logs) private {
        Movement[] memory claims = new Movement[](logs.length);
        Movement[] memory moves = new Movement[](logs.length);
        uint256 claimCount;
        uint256 moveCount;
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].emitter == address(turnpike)) {
                Movement memory claim = _judgeEvent(logs[i]);
                if (claim.amount != 0) claims[claimCount++] = claim;
                _replay(logs[i]);
            } else if (logs[i].topics[0] == keccak256("Transfer(address,address,uint256)")) {
                moves[moveCount++] = _movement(logs[i]);
            }
        }
        claimed = claimCount;
        _judgeMovements(claims, claimCount, moves, moveCount);
    }

    function _movement(Log memory log) internal pure returns (Movement memory m) {
        m.token = log.emitter;
        m.from = address(uint160(uint256(log.topics[1])));
        m.to = address(uint160(uint256(log.topics[2])));
        m.amount = abi.decode(log.data, (uint256));
    }

    /// @dev Each charge or debit is one transfer of its amount, and there is no other.
    function _judgeMovements(
        Movement[] memory claims,
        uint256 claimCount,
        Movement[] memory moves,
        uint256 moveCount
    ) private {
        for (uint256 i = 0; i < claimCount; ++i) {
            owed[claims[i].token][claims[i].to] += claims[i].amount;
            if (!_match(claims[i], moves, moveCount)) _breach(7, "a charge or debit without its exact transfer");
        }
        for (uint256 i = 0; i < moveCount; ++i) {
            Movement memory m = moves[i];
            if (m.to == address(turnpike) || m.to == address(settler)) _breach(1, "Turnpike was paid");
            // A fee that the token takes from the payee is the token's affair.
            if (!m.matched && m.to != fickle.FEE_SINK()) _breach(21, "a transfer that no charge or debit explains");
        }
    }

    function _match(Movement memory claim, Movement[] memory moves, uint256 moveCount) private pure returns (bool) {
        for (uint256 i = 0; i < moveCount; ++i) {
            Movement memory m = moves[i];
            if (m.matched || m.token != claim.token || m.from != claim.from) continue;
            if (m.to != claim.to || m.amount != claim.amount) continue;
            m.matched = true;
            return true;
        }
        return false;
    }

    function _judgeEvent(Log memory log) private returns (Movement memory claim) {
        bytes32 topic = log.topics[0];
        bytes32 id = log.topics[1];
        if (topic == ITurnpike.Renewed.selector) return _judgeRenewed(id, abi.decode(log.data, (uint40)));
        if (topic == ITurnpike.Debited.selector) {
            (uint256 amount, uint256 index) = abi.decode(log.data, (uint256, uint256));
            return _judgeDebited(id, amount, index);
        }
        if (topic == ITurnpike.Subscribed.selector) return _judgeSubscribed(log);
        if (topic == ITurnpike.Resumed.selector) {
            (uint256 charged, uint40 paidThrough) = abi.decode(log.data, (uint256, uint40));
            return _judgeResumed(id, charged, paidThrough);
        }
        if (topic == ITurnpike.PlanChanged.selector) return _judgePlanChanged(log);
        if (topic == ITurnpike.Cancelled.selector) {
            (bool atPeriodEnd, address by) = abi.decode(log.data, (bool, address));
            _judgeCancelled(id, atPeriodEnd, by);
        } else if (topic == ITurnpike.Rekeyed.selector) {
            _judgeRekeyed(id, log.topics[2]);
        } else if (topic == ITurnpike.MaxOverageSet.selector) {
            Life storage life = _authorised(id);
            life.cap = abi.decode(log.data, (uint256));
            if (life.cap != intent.cap) _breach(12, "a cap that nobody granted");
            if (life.cap > life.highestCap) life.highestCap = life.cap;
        } else if (topic == ITurnpike.Paused.selector) {
            _authorised(id);
        }
    }

    // ------------------------------------------------------------------ one event

    function _authorised(bytes32 id) private returns (Life storage life) {
        life = lives[lifeOf[id]];
        if (intent.subscriber == address(0) || rows[id].subscriber != intent.subscriber) {
            _breach(12, "a subscription was changed without its subscriber");
        }
        if (tombstone[id]) _breach(13, "a cancelled record was changed");
    }

    /// @dev A period [end - interval, end) was charged, once, for the plan agreed to.
    function _charged(bytes32 id, Life storage life, uint256 end) private returns (Movement memory claim) {
        Terms storage terms = _planOf(life.planId).terms;
        uint256 start = end - terms.interval;
        if (tombstone[id] || life.over || life.ending) _breach(11, "a charge after the end");
        if (start < life.paidThrough) _breach(3, "two charges for one period");
        if (end <= life.paidThrough) _breach(4, "paidThrough did not grow");
        if (end <= clock) _breach(6, "a charge for a period that is wholly past");
        if (start + terms.grace < clock) _breach(6, "a charge for time that was not served");
        life.charges += 1;
        if (life.charges > 1 + (clock - life.since) / terms.interval) _breach(5, "more charges than periods begun");
        _newCycle(life, end, terms.amount);
        _saw(Premise.Charge);
        return Movement(terms.token, rows[id].subscriber, terms.payTo, terms.amount, false);
    }

    function _newCycle(Life storage life, uint256 end, uint256 paid) private {
        if (life.debited != 0) _saw(Premise.NewCycleAfterDebits);
        life.paidThrough = end;
        life.paid = paid;
        life.debited = 0;
        life.highestCap = life.cap;
    }

    function _judgeSubscribed(Log memory log) private returns (Movement memory claim) {
        bytes32 id = log.topics[1];
        (uint256 cap, uint40 paidThrough) = abi.decode(log.data, (uint256, uint40));
        if (lifeOf[id] != 0 || tombstone[id]) _breach(13, "an idHash was used again");
        Life storage life = lives[++lifeCount];
        lifeOf[id] = lifeCount;
        life.planId = log.topics[2];
        if (intent.subscriber == address(0) || address(uint160(uint256(log.topics[3]))) != intent.subscriber) {
            _breach(12, "a subscription that nobody asked for");
        }
        if (life.planId != intent.planId || cap != intent.cap) _breach(12, "not the plan or cap that was agreed to");
        Plan storage plan = _planOf(life.planId);
        if (plan.deprecated) _breach(14, "a signup to a deprecated plan");
        life.since = clock;
        life.cap = cap;
        if (paidThrough != clock + plan.terms.interval) _breach(7, "a first period of another length");
        rows[id].subscriber = intent.subscriber; // for the claim; the replay sets it from the log
        return _charged(id, life, paidThrough);
    }

    function _judgeRenewed(bytes32 id, uint256 end) private returns (Movement memory) {
        Life storage life = lives[lifeOf[id]];
        Terms storage terms = _planOf(life.planId).terms;
        if (clock < life.paidThrough) _breach(4, "a renewal before it was due");
        if (clock >= life.paidThrough + terms.interval) _breach(6, "a renewal after expiry without its subscriber");
        if (life.renewedIn == step) _breach(6, "one call charged two periods");
        life.renewedIn = step;
        bool lapsed = clock >= life.paidThrough + terms.grace;
        _saw(lapsed ? Premise.RenewalAfterLapse : Premise.RenewalOnTime);
        if (end != (lapsed ? clock - terms.grace : life.paidThrough) + terms.interval) {
            _breach(6, "a period that starts elsewhere than grace ago");
        }
        if (rows[id].paused) _breach(11, "a renewal while paused");
        return _charged(id, life, end);
    }

    function _judgeResumed(bytes32 id, uint256 charged, uint256 end) private returns (Movement memory claim) {
        Life storage life = _authorised(id);
        Plan storage plan = _planOf(life.planId);
        if (charged == 0) {
            if (end != life.paidThrough) _breach(7, "a free period");
            if (clock >= life.paidThrough) _breach(7, "a resume that should have charged");
            return claim;
        }
        if (clock < life.paidThrough) _breach(4, "a charge before it was due");
        if (charged != plan.terms.amount) _breach(7, "a resume at another price");
        if (plan.deprecated) _breach(14, "a payment back into a deprecated plan");
        _saw(rows[id].paused ? Premise.ResumeAfterPause : Premise.ResumeAfterExpiry);
        return _charged(id, life, end);
    }

    function _judgePlanChanged(Log memory log) private returns (Movement memory claim) {
        bytes32 id = log.topics[1];
        Life storage life = _authorised(id);
        (uint256 cap, uint256 charged, uint40 end) = abi.decode(log.data, (uint256, uint256, uint40));
        if (log.topics[2] != intent.planId || cap != intent.cap) _breach(12, "not the change that was agreed to");
        if (life.ending || tombstone[id]) _breach(11, "a plan change after the end");
        Terms storage old = _planOf(life.planId).terms;
        Plan storage plan = _planOf(intent.planId);
        if (plan.deprecated) _breach(14, "a move to a deprecated plan");
        uint256 credit = (old.amount * (life.paidThrough - clock)) / old.interval;
        if (charged + credit != plan.terms.amount) _breach(7, "a plan change charged other than A - C");
        if (end != clock + plan.terms.interval) _breach(7, "a changed plan's period of another length");
        _saw(Premise.PlanChange);
        life.planId = intent.planId;
        life.since = clock;
        life.charges = 1;
        life.cap = cap;
        _newCycle(life, end, charged);
        if (charged == 0) return claim;
        return Movement(plan.terms.token, rows[id].subscriber, plan.terms.payTo, charged, false);
    }

    function _judgeCancelled(bytes32 id, bool atPeriodEnd, address by) private {
        Life storage life = lives[lifeOf[id]];
        if (tombstone[id]) _breach(13, "cancelled twice");
        bool providersRight =
            intent.caller == _planOf(life.planId).provider && (atPeriodEnd || clock >= life.paidThrough);
        bool own = rows[id].subscriber == intent.subscriber && intent.subscriber != address(0);
        if (!own && !providersRight) _breach(12, "cancelled by one who may not");
        if (own && by != intent.subscriber) _breach(22, "the log names another than the one who cancelled");
        if (atPeriodEnd) {
            life.ending = true;
        } else {
            life.over = true;
            _bury(id);
        }
    }

    function _judgeRekeyed(bytes32 id, bytes32 newId) private {
        _authorised(id);
        if (lifeOf[newId] != 0 || tombstone[newId]) _breach(13, "an idHash was used again");
        lifeOf[newId] = lifeOf[id];
        _bury(id);
        _saw(Premise.Rekey);
    }

    function _bury(bytes32 id) private {
        tombstone[id] = true;
        tombstones.push(id);
    }

    function _judgeDebited(bytes32 id, uint256 amount, uint256 index) private returns (Movement memory) {
        Life storage life = lives[lifeOf[id]];
        Terms storage terms = _planOf(life.planId).terms;
        if (tombstone[id] || life.over) _breach(11, "a debit after the end");
        if (life.ending && clock >= life.paidThrough) _breach(11, "a debit after the last paid period");
        if (life.ending) _saw(Premise.DebitWhileEnding);
        if (clock >= life.paidThrough + terms.grace) _breach(19, "a debit of one who is not served");
        if (clock >= life.paidThrough) _saw(Premise.DebitInGrace);
        if (index != life.debits) _breach(10, "a debit index twice, or skipped");
        life.debits = index + 1;
        life.debited += amount;
        if (life.debited > life.cap) _breach(8, "debits above the cap in force");
        if (life.debited == life.cap) _saw(Premise.DebitAtTheCap);
        if (life.debited > life.highestCap) _breach(21, "more than price and cap in one cycle");
        life.debitedIn = step;
        _saw(Premise.Debit);
        return Movement(terms.token, rows[id].subscriber, terms.payTo, amount, false);
    }
}
