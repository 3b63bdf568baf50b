// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike, Terms} from "../../contracts/interfaces/ITurnpike.sol";
import {Almanac} from "./Almanac.sol";
import {Premise, Premises} from "./Premises.sol";
import {Replay} from "./Replay.sol";
import {Log} from "./Vm.sol";

/// @notice The history of each subscription as its events state it, and the laws that one event can break. It knows who
/// signed or called for what, and does not know the model.
abstract contract Lives is Replay, Premises {
    /// @dev One subscription through all its rekeys.
    struct Life {
        bytes32 planId; // that its subscriber agreed to
        uint256 since; // start of the first regular period on this plan
        uint256 charges; // of regular periods on this plan
        uint256 paidThrough;
        uint256 cap; // that its subscriber granted
        uint256 highestCap; // of this cycle
        uint256 paid; // for this cycle
        uint256 debited; // in this cycle
        uint256 debits; // ever
        uint256 renewedIn; // the last step that renewed it
        bool ending;
        bool over;
        bool intro; // paid by a voucher
        uint256 anchor; // day of the month; 0: periods in seconds
        uint256 anchorMonth; // in which the anchor was set
        uint256 months; // from there to paidThrough
        uint256 timeOfDay; // of every boundary since
        uint256 until; // that its subscriber set; 0: none
        bytes32 nextPlanId; // that its subscriber scheduled; 0: none
        bytes32 changedTo; // by the change that the next charge has to follow
        bytes32 agreed; // token, amount and interval, as its subscriber was shown them
    }

    /// @dev What a step is meant to do, stated before it is done.
    struct Intent {
        address caller;
        address subscriber; // who called or validly signed; zero: nobody did
        bytes32 planId; // that the subscriber agrees to with it
        uint256 cap; // that the subscriber grants with it
        uint256 until; // that the subscriber sets with it
        uint256 signedUntil; // that a signup has
        bytes32 nextPlanId; // that the subscriber schedules with it
        Terms shown; // what was signed; the plan's terms when the subscriber called
        bool withVoucher;
        uint256 firstAmount; // by the voucher
        uint256 firstInterval;
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
    mapping(bytes32 idHash => bool) internal voided;
    bytes32[] internal voids;
    mapping(bytes32 planId => uint256) private _proposedAt;
    mapping(bytes32 planId => bool) private _proposedByPayee;
    mapping(bytes32 planId => uint256 step) private _handedIn;
    /// @dev What was soundly signed: see `_offerKey`. The value is the last second in which it counts.
    mapping(bytes32 offer => uint256) internal offered;

    function _breach(uint256 law, string memory what) internal {
        if (bytes(breaches[law]).length == 0) breaches[law] = what;
    }

    function _offerKey(
        address signer,
        bytes32 id,
        bytes32 planId,
        uint256 firstAmount,
        uint256 firstInterval
    ) internal pure returns (bytes32) {
        return keccak256(abi.encode(signer, id, planId, firstAmount, firstInterval));
    }

    function _agreement(Terms memory terms) private pure returns (bytes32) {
        return keccak256(abi.encode(terms.token, terms.amount, terms.interval, terms.months));
    }

    /// @dev By the events about it, each of which L31 judges.
    function _payeeOf(bytes32 planId) private view returns (address) {
        return planRows[planId].terms.payTo;
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
        } else {
            _judgeOther(topic, id, log);
        }
    }

    function _judgeOther(bytes32 topic, bytes32 id, Log memory log) private {
        if (topic == ITurnpike.NextSet.selector) {
            (uint40 until, bytes32 nextPlanId) = abi.decode(log.data, (uint40, bytes32));
            _judgeNextSet(id, until, nextPlanId);
        } else if (topic == ITurnpike.ChangeMade.selector) {
            Life storage life = lives[lifeOf[id]];
            if (life.nextPlanId == bytes32(0) || life.nextPlanId != log.topics[2]) {
                _breach(28, "a change that is not the scheduled one");
            }
            life.changedTo = log.topics[2];
        } else if (topic == ITurnpike.VoucherUsed.selector) {
            _judgeVoucher(id, address(uint160(uint256(log.topics[2]))), abi.decode(log.data, (uint256)));
        } else if (topic == ITurnpike.Voided.selector) {
            address subscriber = address(uint160(uint256(log.topics[2])));
            if (subscriber == address(0) || subscriber != intent.subscriber) _breach(12, "a void nobody asked for");
            if (lifeOf[id] != 0 || tombstone[id]) _breach(13, "a used idHash was voided");
            voided[id] = true;
            voids.push(id);
            _bury(id);
        } else {
            _judgePlan(topic, id, log);
        }
    }

    // ------------------------------------------------------------------ plans

    function _judgePlan(bytes32 topic, bytes32 planId, Log memory log) private {
        PlanRow storage row = planRows[planId];
        bool may = intent.caller == row.provider || intent.caller == row.terms.payTo;
        if (topic == ITurnpike.PayToProposed.selector) {
            (, , address by) = abi.decode(log.data, (address, uint40, address));
            if (!may) _breach(31, "a payee was proposed or withdrawn by one who may not");
            if (by != intent.caller) _breach(22, "the log names another than the one who proposed");
            _proposedAt[planId] = clock;
            _proposedByPayee[planId] = by != row.provider;
        } else if (topic == ITurnpike.PayToMoved.selector) {
            _judgePayee(planId, row, abi.decode(log.data, (address)));
        } else if (topic == ITurnpike.PlanTransferred.selector) {
            if (row.nextProvider == address(0) || row.nextProvider != intent.caller) {
                _breach(15, "a plan was taken over without an offer");
            }
            if (row.terms.payTo != row.provider) _breach(31, "a plan was handed over without its payee");
            _handedIn[planId] = step;
        } else if (topic == ITurnpike.PlanEnded.selector) {
            if (intent.caller != row.provider) _breach(12, "a plan was stopped by another than its provider");
            _saw(Premise.PlanStopped);
        }
    }

    /// @dev Slowly; at once by the consent of both; or together with the plan.
    function _judgePayee(bytes32 planId, PlanRow storage row, address payTo) private {
        if (_handedIn[planId] == step) {
            if (payTo != intent.caller) _breach(31, "a plan was handed over to another payee");
            return;
        }
        if (payTo == address(0) || payTo != row.proposedPayTo) _breach(31, "a payee that was not proposed");
        _saw(Premise.PayeeMoved);
        if (clock >= _proposedAt[planId] + 7 days) return;
        address other = _proposedByPayee[planId] ? row.provider : row.terms.payTo;
        if (intent.caller != other || row.provider == row.terms.payTo) _breach(31, "a payee that was proposed lately");
        _saw(Premise.PayeeConfirmed);
    }

    function _judgeVoucher(bytes32 id, address signer, uint256 firstAmount) private {
        bytes32 key = _offerKey(signer, id, intent.planId, firstAmount, intent.firstInterval);
        if (!intent.withVoucher || offered[key] < clock) _breach(29, "a voucher that its signer did not give");
        if (rightRows[intent.planId][signer] & 2 == 0) _breach(29, "a voucher of one without the right");
        _saw(Premise.VoucherUsed);
    }

    function _judgeNextSet(bytes32 id, uint256 until, bytes32 nextPlanId) private {
        if (until != intent.until || nextPlanId != intent.nextPlanId) {
            _breach(27, "not the end or change that was agreed to");
        }
        if (until != 0 && until <= clock) _breach(27, "an end that is not in the future");
        // At a signup it comes before the record's own event.
        if (lifeOf[id] == 0 && !tombstone[id]) return;
        Life storage life = _authorised(id);
        if (intent.subscriber == address(0)) _breach(27, "an end was moved without its subscriber");
        if (nextPlanId != bytes32(0) && nextPlanId != life.nextPlanId) {
            if (_planOf(nextPlanId).deprecated) _breach(14, "a move to a deprecated plan");
            if (planRows[life.planId].stopped) _breach(35, "a change was scheduled on a stopped plan");
            if (clock >= life.paidThrough) _breach(28, "a change scheduled while a period is owed");
        }
        if (
            nextPlanId != bytes32(0) &&
            keccak256(abi.encode(intent.shown)) != keccak256(abi.encode(_shownOf(nextPlanId)))
        ) {
            _breach(33, "other terms are scheduled than were shown");
        }
        (life.until, life.nextPlanId) = (until, nextPlanId);
    }

    /// @dev A message shows no grace.
    function _shownOf(bytes32 planId) private view returns (Terms memory terms) {
        terms = planRows[planId].terms;
        terms.grace = intent.shown.grace;
    }

    // ------------------------------------------------------------------ periods

    /// @dev The end of a period from `start` on: `months` months after the anchor's month. Moves the anchor when
    /// periods do not go on from where they were.
    function _endOf(Life storage life, Terms storage terms, uint256 start) private returns (uint256) {
        if (!terms.months) {
            life.anchor = 0;
            return start + terms.interval;
        }
        if (start != life.paidThrough || life.anchor == 0) _anchor(life, start);
        life.months += terms.interval;
        if (life.anchor > 28) _saw(Premise.LateAnchor);
        if (life.anchor > Almanac.lengthOf(life.anchorMonth + life.months)) _saw(Premise.ShortMonth);
        uint256 day = Almanac.dayOf(life.anchorMonth + life.months, life.anchor);
        return day * 1 days + life.timeOfDay;
    }

    function _anchor(Life storage life, uint256 start) private {
        (life.anchorMonth, ) = Almanac.dateOf(start / 1 days);
        life.anchor = Almanac.anchorAt(start, life.anchor);
        (life.months, life.timeOfDay) = (0, start % 1 days);
    }

    /// @dev Periods of these terms that began from `since` until now; months by date, since a later start can end a
    /// period at an earlier time of the same day.
    function _begun(uint256 since, Terms storage terms) internal view returns (uint256) {
        if (clock < since) return 0;
        if (!terms.months) return 1 + (clock - since) / terms.interval;
        (uint256 first, uint256 day) = Almanac.dateOf(since / 1 days);
        (uint256 month, ) = Almanac.dateOf(clock / 1 days);
        uint256 count = (month - first) / terms.interval;
        bool reached = Almanac.dayOf(first + count * terms.interval, day) <= clock / 1 days;
        return reached ? count + 1 : count;
    }

    // ------------------------------------------------------------------ one event

    function _authorised(bytes32 id) private returns (Life storage life) {
        life = lives[lifeOf[id]];
        if (intent.subscriber == address(0) || rows[id].subscriber != intent.subscriber) {
            _breach(12, "a subscription was changed without its subscriber");
        }
        if (tombstone[id]) _breach(13, "a cancelled record was changed");
    }

    /// @dev The scheduled change that this charge applies, if there is one.
    function _follow(Life storage life) private {
        if (life.changedTo != life.nextPlanId) _breach(28, "a scheduled change was not applied when it was due");
        if (life.nextPlanId == bytes32(0)) return;
        Plan storage plan = _planOf(life.nextPlanId);
        if (plan.deprecated) _saw(Premise.ChangeIntoDeprecated);
        life.planId = life.nextPlanId;
        (life.nextPlanId, life.changedTo) = (bytes32(0), bytes32(0));
        (life.charges, life.since) = (0, 0);
        life.agreed = _agreement(plan.terms); // what the scheduled planId proves
        _saw(Premise.ChangeApplied);
    }

    /// @dev After a change to periods that are shorter than the grace before it, none is over when it is charged.
    function _startOf(Life storage life, uint256 start) private returns (uint256) {
        Terms storage terms = _planOf(life.planId).terms;
        uint256 end = start + terms.interval;
        if (terms.months) end = Almanac.later(start, terms.interval, Almanac.anchorAt(start, life.anchor));
        if (end > clock) return start;
        _saw(Premise.ChangeToShorter);
        return clock - terms.grace;
    }

    /// @dev A period from `start` on was charged, once, for the plan agreed to.
    function _charged(
        bytes32 id,
        Life storage life,
        uint256 start,
        uint256 end
    ) private returns (Movement memory claim) {
        Terms storage terms = _planOf(life.planId).terms;
        if (tombstone[id] || life.over || life.ending) _breach(11, "a charge after the end");
        if (planRows[life.planId].stopped) _breach(35, "a charge on a stopped plan");
        if (life.until != 0 && clock >= life.until) _breach(27, "a charge after the subscriber's end");
        if (end <= life.paidThrough) _breach(4, "paidThrough did not grow");
        if (end <= clock) _breach(6, "a charge for a period that is wholly past");
        if (end != _endOf(life, terms, start)) {
            _breach(terms.months ? 25 : 6, "a period that does not end where it should");
        }
        uint256 begin = terms.months ? Almanac.earlier(end, terms.interval, life.anchor) : end - terms.interval;
        if (begin < life.paidThrough) _breach(3, "two charges for one period");
        if (begin < start) _breach(6, "a charge for time that was not served");
        if (life.since == 0) life.since = start;
        life.charges += 1;
        if (life.charges > _begun(life.since, terms)) _breach(5, "more charges than periods begun");
        if (life.agreed != _agreement(terms)) _breach(33, "other terms than were signed");
        life.intro = false;
        _newCycle(life, end, terms.amount);
        _saw(Premise.Charge);
        if (terms.months) _saw(Premise.ChargeOfMonths);
        return Movement(terms.token, rows[id].subscriber, _payeeOf(life.planId), terms.amount, false);
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
        if (voided[id]) _breach(32, "a signup with a voided idHash");
        Life storage life = lives[++lifeCount];
        lifeOf[id] = lifeCount;
        life.planId = log.topics[2];
        if (intent.subscriber == address(0) || address(uint160(uint256(log.topics[3]))) != intent.subscriber) {
            _breach(12, "a subscription that nobody asked for");
        }
        if (life.planId != intent.planId || cap != intent.cap) _breach(12, "not the plan or cap that was agreed to");
        Plan storage plan = _planOf(life.planId);
        if (plan.deprecated) _breach(14, "a signup to a deprecated plan");
        life.cap = cap;
        life.until = rows[id].until;
        if (life.until != intent.signedUntil) _breach(33, "another end than was signed");
        life.agreed = _agreement(intent.shown);
        rows[id].subscriber = intent.subscriber; // for the claim; the replay sets it from the log
        if (rows[id].intro) return _judgeIntro(id, life, paidThrough);
        if (intent.withVoucher) _breach(29, "a voucher that left no trace");
        claim = _charged(id, life, clock, paidThrough);
        if (claim.to != intent.shown.payTo) _breach(33, "another payee than was signed");
    }

    /// @dev A first period at the voucher's price, of its length or a regular one.
    function _judgeIntro(bytes32 id, Life storage life, uint256 end) private returns (Movement memory claim) {
        Terms storage terms = _planOf(life.planId).terms;
        uint256 amount = intent.firstAmount;
        if (amount > terms.amount) _breach(29, "a first charge above the price");
        if (life.agreed != _agreement(terms)) _breach(33, "other terms than were signed");
        if (_payeeOf(life.planId) != intent.shown.payTo) _breach(33, "another payee than was signed");
        bool inSeconds = intent.firstInterval != 0;
        if (!inSeconds) {
            if (end != _endOf(life, terms, clock)) _breach(25, "a first period that does not end where it should");
            (life.since, life.charges) = (clock, 1);
        } else {
            if (end != clock + intent.firstInterval) _breach(33, "a first period of another length than was signed");
            if (terms.months) _anchor(life, end);
            life.since = end;
        }
        life.intro = true;
        _newCycle(life, end, amount);
        if (amount == 0) _saw(Premise.FreeSignup);
        return Movement(terms.token, rows[id].subscriber, _payeeOf(life.planId), amount, false);
    }

    function _judgeRenewed(bytes32 id, uint256 end) private returns (Movement memory) {
        Life storage life = lives[lifeOf[id]];
        uint256 grace = _planOf(life.planId).terms.grace;
        if (clock < life.paidThrough) _breach(4, "a renewal before it was due");
        if (clock >= _boundaryOf(life)) _breach(6, "a renewal after expiry without its subscriber");
        if (life.renewedIn == step) _breach(6, "one call charged two periods");
        life.renewedIn = step;
        bool lapsed = clock >= life.paidThrough + grace;
        _saw(lapsed ? Premise.RenewalAfterLapse : Premise.RenewalOnTime);
        if (rows[id].paused) _breach(11, "a renewal while paused");
        if (life.until != 0) _saw(Premise.RenewalBeforeUntil);
        if (lapsed && life.anchor != 0) _saw(Premise.LapseOfMonths);
        _follow(life);
        return _charged(id, life, _startOf(life, lapsed ? clock - grace : life.paidThrough), end);
    }

    /// @dev By the plan that was paid for last, on which a scheduled change has no effect yet.
    function _boundaryOf(Life storage life) internal view returns (uint256) {
        Terms storage terms = _planOf(life.planId).terms;
        return
            terms.months
                ? Almanac.later(life.paidThrough, terms.interval, life.anchor)
                : life.paidThrough + terms.interval;
    }

    function _judgeResumed(bytes32 id, uint256 charged, uint256 end) private returns (Movement memory claim) {
        Life storage life = _authorised(id);
        if (charged == 0) {
            if (end != life.paidThrough) _breach(7, "a free period");
            if (clock >= life.paidThrough) _breach(7, "a resume that should have charged");
            return claim;
        }
        if (clock < life.paidThrough) _breach(4, "a charge before it was due");
        uint256 grace = _planOf(life.planId).terms.grace;
        _follow(life);
        Plan storage plan = _planOf(life.planId);
        if (charged != plan.terms.amount) _breach(7, "a resume at another price");
        if (plan.deprecated) _breach(14, "a payment back into a deprecated plan");
        _saw(rows[id].paused ? Premise.ResumeAfterPause : Premise.ResumeAfterExpiry);
        return _charged(id, life, _startOf(life, rows[id].paused ? clock : clock - grace), end);
    }

    function _judgePlanChanged(Log memory log) private returns (Movement memory claim) {
        bytes32 id = log.topics[1];
        Life storage life = _authorised(id);
        (uint256 cap, uint256 charged, uint40 end) = abi.decode(log.data, (uint256, uint256, uint40));
        if (log.topics[2] != intent.planId || cap != intent.cap) _breach(12, "not the change that was agreed to");
        if (life.ending || tombstone[id]) _breach(11, "a plan change after the end");
        if (life.until != 0 && clock >= life.until) _breach(27, "a plan change after the subscriber's end");
        Plan storage plan = _planOf(intent.planId);
        if (plan.deprecated) _breach(14, "a move to a deprecated plan");
        if (charged + _creditOf(life) != plan.terms.amount) {
            _breach(life.intro ? 30 : 7, "a plan change charged other than A - C");
        }
        if (life.intro) _saw(Premise.PlanChangeInIntro);
        if (planRows[life.planId].stopped) _saw(Premise.ChangeFromStopped);
        if (planRows[intent.planId].stopped) _breach(35, "a change into a stopped plan");
        _saw(Premise.PlanChange);
        life.planId = intent.planId;
        if (end != _endOf(life, plan.terms, clock)) _breach(7, "a changed plan's period of another length");
        life.since = clock;
        life.charges = 1;
        life.cap = cap;
        life.intro = false;
        life.nextPlanId = bytes32(0);
        life.agreed = _agreement(intent.shown);
        _newCycle(life, end, charged);
        if (life.agreed != _agreement(plan.terms)) _breach(33, "other terms than were signed");
        if (_payeeOf(plan.id) != intent.shown.payTo) _breach(33, "another payee than was signed");
        if (charged == 0) return claim;
        return Movement(plan.terms.token, rows[id].subscriber, _payeeOf(plan.id), charged, false);
    }

    /// @dev The unused share of the price that was paid for the period; an introduction has none.
    function _creditOf(Life storage life) private view returns (uint256) {
        if (life.intro) return 0;
        Terms storage terms = _planOf(life.planId).terms;
        uint256 length = terms.interval;
        if (terms.months) length = life.paidThrough - Almanac.earlier(life.paidThrough, terms.interval, life.anchor);
        return (terms.amount * (life.paidThrough - clock)) / length;
    }

    function _judgeCancelled(bytes32 id, bool atPeriodEnd, address by) private {
        Life storage life = lives[lifeOf[id]];
        if (tombstone[id]) _breach(13, "cancelled twice");
        bool providersRight =
            intent.caller == planRows[life.planId].provider && (atPeriodEnd || clock >= life.paidThrough);
        bool own = rows[id].subscriber == intent.subscriber && intent.subscriber != address(0);
        if (!own && !providersRight) _breach(12, "cancelled by one who may not");
        if (own && by != intent.subscriber) _breach(22, "the log names another than the one who cancelled");
        life.nextPlanId = bytes32(0);
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
        if (voided[newId]) _breach(32, "a record moved to a voided idHash");
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
        if (planRows[life.planId].stopped) _breach(35, "a debit on a stopped plan");
        if (life.ending) _saw(Premise.DebitWhileEnding);
        if (life.until != 0 && clock >= life.until) {
            if (clock >= life.paidThrough) _breach(27, "a debit after the subscriber's end and the paid period");
            _saw(Premise.DebitAfterUntil);
        }
        if (clock >= life.paidThrough + terms.grace) _breach(19, "a debit of one who is not served");
        if (clock >= life.paidThrough) _saw(Premise.DebitInGrace);
        if (index != life.debits) _breach(10, "a debit index twice, or skipped");
        life.debits = index + 1;
        life.debited += amount;
        if (life.debited > life.cap) _breach(8, "debits above the cap in force");
        if (life.debited == life.cap) _saw(Premise.DebitAtTheCap);
        if (life.debited > life.highestCap) _breach(21, "more than price and cap in one cycle");
        _saw(Premise.Debit);
        return Movement(terms.token, rows[id].subscriber, _payeeOf(life.planId), amount, false);
    }
}
