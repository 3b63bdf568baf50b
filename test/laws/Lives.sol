// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike, Terms} from "../../contracts/interfaces/ITurnpike.sol";
import {Premise, Premises} from "./Premises.sol";
import {Replay} from "./Replay.sol";
import {Log} from "./Vm.sol";

/// @notice The history of each subscription as its events state it, and the laws that one event can break. It knows who
/// signed or called for what, and does not know the model.
abstract contract Lives is Replay, Premises {
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
        bool ending;
        bool over;
    }

    /// @dev What a step is meant to do, stated before it is done.
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
    mapping(bytes32 idHash => bool) internal tombstone; // cancelled at once, or rekeyed away
    bytes32[] internal tombstones;

    function _breach(uint256 law, string memory what) internal {
        if (bytes(breaches[law]).length == 0) breaches[law] = what;
    }

    function _judgeEvent(Log memory log) internal returns (Movement memory claim) {
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
        _saw(Premise.Debit);
        return Movement(terms.token, rows[id].subscriber, terms.payTo, amount, false);
    }
}
