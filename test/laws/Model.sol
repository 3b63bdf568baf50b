// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike, Status, Terms} from "../../contracts/interfaces/ITurnpike.sol";
import {AllowanceView, SubscriptionState, SubscriptionView} from "../../contracts/interfaces/ITurnpikeLens.sol";
import {Almanac} from "./Almanac.sol";
import {FickleToken} from "./doubles/FickleToken.sol";
import {Unexpected, World} from "./World.sol";

/// @notice What Turnpike ought to hold and answer, written again from its rules: nothing of its code is used.
/// @dev Every `_expect...` function returns the exact error that the act must end in, or nothing for success.
abstract contract Model is World {
    struct Record {
        address subscriber;
        bytes32 planId;
        uint256 paidThrough;
        uint256 version;
        bool paused;
        bool ending;
        bool cancelled;
        bool intro;
        uint256 anchor; // day of the month, 0: periods in seconds
        uint256 until; // 0: none
        bytes32 nextPlanId; // 0: none
        uint256 cap;
        uint256 spent;
        uint256 cycle;
        uint256 debits;
    }

    /// @dev What a subscriber asks for when it signs up.
    struct Wish {
        address subscriber;
        bytes32 planId;
        bytes32 secretHash;
        bytes32 id;
        uint256 cap;
        uint256 until; // 0: none
        bool intro; // with a voucher
        uint256 firstAmount;
        uint256 firstInterval; // seconds; 0: one regular period
    }

    uint256 internal constant LAST_VERSION = 65_535;
    uint256 internal constant DEBIT = 1;
    uint256 internal constant VOUCHER = 2;
    uint256 internal constant ALL_RIGHTS = 7;

    bytes32[] internal ids; // of every record that ever was
    mapping(bytes32 idHash => Record) internal records;
    mapping(bytes32 planId => mapping(address account => uint256)) internal rights;
    mapping(address token => mapping(address account => uint256)) internal balances;
    mapping(address token => mapping(address account => uint256)) internal approvals;

    // ------------------------------------------------------------------ standing

    function _statusAt(Record storage r, uint256 t) internal view returns (Status) {
        if (r.subscriber == address(0)) return Status.NONE;
        if (r.cancelled) return Status.CANCELLED;
        bool bounded = _endsWithPeriod(r) || (r.until != 0 && t >= r.until);
        if (bounded && t >= r.paidThrough) return Status.CANCELLED;
        if (r.paused) return Status.PAUSED;
        Terms storage terms = _planOf(r.planId).terms;
        if (t >= _boundaryOf(r)) return Status.EXPIRED;
        return t >= r.paidThrough + terms.grace ? Status.PAST_DUE : Status.ACTIVE;
    }

    /// @dev The end of the next period, were it collected in time.
    function _boundaryOf(Record storage r) internal view returns (uint256) {
        Terms storage terms = _planOf(r.planId).terms;
        return terms.months ? Almanac.later(r.paidThrough, terms.interval, r.anchor) : r.paidThrough + terms.interval;
    }

    /// @dev The end of a period of these terms, and the anchor that it leaves.
    function _periodOf(
        Terms storage terms,
        uint256 start,
        uint256 before
    ) private view returns (uint256 end, uint256 anchor) {
        if (!terms.months) return (start + terms.interval, 0);
        anchor = Almanac.anchorAt(start, before);
        end = Almanac.later(start, terms.interval, anchor);
    }

    /// @dev Puts the record into a period that was charged in full.
    function _enter(Record storage r, bytes32 planId, uint256 start) private {
        Terms storage terms = _planOf(planId).terms;
        (uint256 end, uint256 anchor) = _periodOf(terms, start, r.anchor);
        // Shorter than the grace of the plan before.
        if (end <= clock) (end, anchor) = _periodOf(terms, clock - terms.grace, r.anchor);
        (r.paidThrough, r.anchor) = (end, anchor);
        r.planId = planId;
        r.nextPlanId = bytes32(0);
        r.intro = false;
    }

    /// @dev The plan of the next charged period.
    function _nextPlanOf(Record storage r) internal view returns (bytes32) {
        return r.nextPlanId == bytes32(0) ? r.planId : r.nextPlanId;
    }

    function _endsWithPeriod(Record storage r) internal view returns (bool) {
        return r.ending || _planOf(r.planId).stopped;
    }

    function _isDue(Record storage r) internal view returns (bool) {
        return _fallsDue(r) && !_planOf(_nextPlanOf(r)).stopped;
    }

    function _fallsDue(Record storage r) private view returns (bool) {
        Status status = _statusAt(r, clock);
        if (status == Status.PAST_DUE) return true;
        return status == Status.ACTIVE && !r.ending && clock >= r.paidThrough;
    }

    function _remaining(Record storage r) internal view returns (uint256) {
        uint256 spent = r.cycle == r.paidThrough ? r.spent : 0;
        return r.cap > spent ? r.cap - spent : 0;
    }

    /// @dev The error of one that takes no subscription.
    function _closed(Plan storage plan) internal view returns (bytes memory) {
        if (plan.stopped) return abi.encodeWithSelector(ITurnpike.PlanStopped.selector, plan.id);
        return abi.encodeWithSelector(ITurnpike.PlanDeprecated.selector, plan.id);
    }

    function _notActive(bytes32 id, Status status) internal pure returns (bytes memory) {
        return abi.encodeWithSelector(ITurnpike.SubscriptionNotActive.selector, id, status);
    }

    // ------------------------------------------------------------------ money

    /// @dev Moves the model's money when the token would, and returns the error when it would not.
    function _expectCollect(address token, address from, address to, uint256 amount) internal returns (bytes memory) {
        FickleToken.Fault fault = token == address(fickle) ? fickle.fault() : FickleToken.Fault.None;
        uint256 balance = balances[token][from];
        uint256 approval = approvals[token][from];
        bool moves =
            balance >= amount &&
                approval >= amount &&
                (fault < FickleToken.Fault.ReturnsFalse || fault > FickleToken.Fault.BurnsGasBlind);
        uint256 approvalLeft = approval == type(uint256).max ? approval : approval - (moves ? amount : 0);

        if (moves && fault < FickleToken.Fault.ReturnsFalse) {
            balances[token][from] -= amount;
            balances[token][to] += amount;
            approvals[token][from] = approvalLeft;
            if (fault == FickleToken.Fault.TakesFee) {
                balances[token][to] -= amount / 100;
                balances[token][fickle.FEE_SINK()] += amount / 100;
            }
            return "";
        }
        if (fault != FickleToken.Fault.BurnsGasBlind) {
            // A token that moves and then lies is asked after the move, which only the revert undoes.
            if (moves) balance -= amount;
            if (balance < amount) {
                return abi.encodeWithSelector(ITurnpike.InsufficientFunds.selector, from, token, amount, balance);
            }
            if (approvalLeft < amount) {
                return
                    abi.encodeWithSelector(ITurnpike.InsufficientApproval.selector, from, token, amount, approvalLeft);
            }
        }
        return abi.encodeWithSelector(ITurnpike.TransferFailed.selector, token, from, to, amount);
    }

    function _expectPrice(Record storage r) private returns (bytes memory) {
        Terms storage terms = _planOf(_nextPlanOf(r)).terms;
        return _expectCollect(terms.token, r.subscriber, terms.payTo, terms.amount);
    }

    function _isFunded(Record storage r) internal view returns (bool) {
        Terms storage terms = _planOf(_nextPlanOf(r)).terms;
        return
            balances[terms.token][r.subscriber] >= terms.amount && approvals[terms.token][r.subscriber] >= terms.amount;
    }

    // ------------------------------------------------------------------ acts

    function _expectSubscribe(Wish memory w) internal returns (bytes memory err) {
        if (planAt[w.planId] == 0) return abi.encodeWithSelector(ITurnpike.UnknownPlan.selector, w.planId);
        Plan storage plan = _planOf(w.planId);
        if (plan.deprecated) return _closed(plan);
        err = _expectUnused(w.id);
        if (err.length == 0) err = _expectCap(w.cap);
        if (err.length == 0) err = _expectUntil(w.id, w.until);
        if (err.length != 0) return err;
        uint256 charge = w.intro ? w.firstAmount : plan.terms.amount;
        if (charge != 0) err = _expectCollect(plan.terms.token, w.subscriber, plan.terms.payTo, charge);
        if (err.length != 0) return err;
        _enrol(w, plan);
    }

    function _enrol(Wish memory w, Plan storage plan) private {
        Record storage r = records[w.id];
        (r.subscriber, r.planId, r.until, r.intro) = (w.subscriber, w.planId, w.until, w.intro);
        uint256 firstInterval = w.intro ? w.firstInterval : 0;
        uint256 regular = clock + firstInterval;
        (r.paidThrough, r.anchor) = _periodOf(plan.terms, regular, 0);
        if (firstInterval != 0) r.paidThrough = regular;
        if (w.cap != 0) (r.cap, r.cycle) = (w.cap, r.paidThrough);
        ids.push(w.id);
    }

    function _expectUnused(bytes32 id) private view returns (bytes memory) {
        if (records[id].subscriber == address(0)) return "";
        return abi.encodeWithSelector(ITurnpike.IdHashUsed.selector, id);
    }

    function _expectUntil(bytes32 id, uint256 until) private view returns (bytes memory) {
        if (until == 0 || until > clock) return "";
        return abi.encodeWithSelector(ITurnpike.UntilReached.selector, id, until);
    }

    function _expectVoid(address subscriber, bytes32 id) internal returns (bytes memory err) {
        err = _expectUnused(id);
        if (err.length != 0) return err;
        (records[id].subscriber, records[id].cancelled) = (subscriber, true);
        ids.push(id);
    }

    function _expectCap(uint256 cap) private pure returns (bytes memory) {
        if (cap < 2 ** 88) return "";
        return abi.encodeWithSelector(ITurnpike.CapTooLarge.selector, cap, 2 ** 88 - 1);
    }

    /// @dev The error of an act at the last version, else the version goes up.
    function _expectBump(bytes32 id) private returns (bytes memory) {
        if (records[id].version == LAST_VERSION) return abi.encodeWithSelector(ITurnpike.VersionExhausted.selector, id);
        records[id].version += 1;
        return "";
    }

    function _expectPause(bytes32 id) internal returns (bytes memory err) {
        Record storage r = records[id];
        Status status = _statusAt(r, clock);
        if (status != Status.ACTIVE) return _notActive(id, status);
        if (clock >= r.paidThrough) return abi.encodeWithSelector(ITurnpike.RenewalDue.selector, id, r.paidThrough);
        err = _expectBump(id);
        if (err.length == 0) r.paused = true;
    }

    function _expectResume(bytes32 id, uint256 maxCharge) internal returns (bytes memory err) {
        Record storage r = records[id];
        Plan storage plan = _planOf(r.planId);
        Status status = _statusAt(r, clock);
        if (status != Status.PAUSED && status != Status.EXPIRED) {
            if (plan.stopped && clock >= r.paidThrough) return _closed(plan);
            return abi.encodeWithSelector(ITurnpike.NothingToResume.selector, id, status);
        }
        if (clock < r.paidThrough) {
            err = _expectBump(id);
            if (err.length == 0) r.paused = false;
            return err;
        }
        if (r.version == LAST_VERSION) return abi.encodeWithSelector(ITurnpike.VersionExhausted.selector, id);
        Plan storage next = _planOf(_nextPlanOf(r));
        if (next.deprecated) return _closed(next);
        if (next.terms.amount > maxCharge) {
            return abi.encodeWithSelector(ITurnpike.ChargeAboveMax.selector, next.terms.amount, maxCharge);
        }
        err = _expectPrice(r);
        if (err.length != 0) return err;
        r.version += 1;
        r.paused = false;
        _enter(r, next.id, status == Status.EXPIRED ? clock - plan.terms.grace : clock);
    }

    /// @dev `bumps`: by the subscriber, whose acts void the signatures before them.
    function _expectCancel(bytes32 id, bool atPeriodEnd, bool bumps) internal returns (bytes memory) {
        Record storage r = records[id];
        if (_statusAt(r, clock) == Status.CANCELLED) return _notActive(id, Status.CANCELLED);
        if (atPeriodEnd && clock < r.paidThrough) r.ending = true;
        else r.cancelled = true;
        r.nextPlanId = bytes32(0);
        if (bumps && r.version < LAST_VERSION) r.version += 1;
        return "";
    }

    function _expectRekey(bytes32 id, bytes32 newId) internal returns (bytes memory) {
        Record storage r = records[id];
        if (_statusAt(r, clock) == Status.CANCELLED) return _notActive(id, Status.CANCELLED);
        if (records[newId].subscriber != address(0)) {
            return abi.encodeWithSelector(ITurnpike.IdHashUsed.selector, newId);
        }
        records[newId] = r;
        records[newId].version = 0;
        ids.push(newId);
        r.cancelled = true;
        if (r.version < LAST_VERSION) r.version += 1;
        (r.until, r.nextPlanId) = (0, bytes32(0));
        (r.cap, r.spent, r.cycle, r.debits) = (0, 0, 0, 0);
        return "";
    }

    function _expectSetNext(
        bytes32 id,
        uint256 until,
        bytes32 nextPlanId,
        Terms memory shown
    ) internal returns (bytes memory err) {
        Record storage r = records[id];
        if (_statusAt(r, clock) == Status.CANCELLED) return _notActive(id, Status.CANCELLED);
        if (r.ending) return abi.encodeWithSelector(ITurnpike.Ending.selector, id);
        err = _expectUntil(id, until);
        if (err.length != 0) return err;
        if (nextPlanId != bytes32(0) && nextPlanId != r.nextPlanId) {
            err = _expectChangeable(id, r);
            if (err.length == 0 && _planOf(r.planId).stopped) return _closed(_planOf(r.planId));
            if (err.length == 0) err = _expectChange(r, nextPlanId);
        }
        if (err.length == 0) err = _expectShown(nextPlanId, shown);
        if (err.length == 0) err = _expectBump(id);
        if (err.length == 0) (r.until, r.nextPlanId) = (until, nextPlanId);
    }

    /// @dev Without a plan all terms are zero.
    function _expectShown(bytes32 planId, Terms memory shown) private view returns (bytes memory) {
        Terms storage terms = _planOf(planId).terms;
        string memory field;
        if (shown.months != terms.months) field = "unit";
        if (shown.interval != terms.interval) field = "interval";
        if (shown.amount != terms.amount) field = "amount";
        if (shown.payTo != terms.payTo) field = "payTo";
        if (shown.token != terms.token) field = "token";
        if (bytes(field).length == 0) return "";
        return abi.encodeWithSelector(ITurnpike.TermsDiffer.selector, planId, field);
    }

    function _expectChangeable(bytes32 id, Record storage r) private view returns (bytes memory) {
        Status status = _statusAt(r, clock);
        if (status != Status.ACTIVE) return _notActive(id, status);
        if (r.ending) return abi.encodeWithSelector(ITurnpike.Ending.selector, id);
        if (clock < r.paidThrough) return "";
        return abi.encodeWithSelector(ITurnpike.RenewalDue.selector, id, r.paidThrough);
    }

    function _expectChange(Record storage r, bytes32 newPlanId) private view returns (bytes memory) {
        if (planAt[newPlanId] == 0) return abi.encodeWithSelector(ITurnpike.UnknownPlan.selector, newPlanId);
        Plan storage plan = _planOf(r.planId);
        Plan storage next = _planOf(newPlanId);
        bool kin = plan.provider == next.provider && plan.terms.token == next.terms.token;
        if (!kin || plan.id == next.id) {
            return abi.encodeWithSelector(ITurnpike.PlanMismatch.selector, plan.id, newPlanId);
        }
        if (next.deprecated) return _closed(next);
        return "";
    }

    function _expectQuote(
        bytes32 id,
        bytes32 newPlanId
    ) internal view returns (bytes memory err, uint256 charge, uint256 credit) {
        Record storage r = records[id];
        err = _expectChangeable(id, r);
        if (err.length == 0 && r.until != 0) err = _expectUntil(id, r.until);
        if (err.length == 0) err = _expectChange(r, newPlanId);
        if (err.length != 0) return (err, 0, 0);
        credit = _creditOf(r);
        uint256 price = _planOf(newPlanId).terms.amount;
        if (credit > price) {
            return (abi.encodeWithSelector(ITurnpike.CreditExceedsPrice.selector, credit, price), 0, 0);
        }
        return ("", price - credit, credit);
    }

    /// @dev The unused share of the price; an introduction has none.
    function _creditOf(Record storage r) private view returns (uint256) {
        if (r.intro) return 0;
        Terms storage terms = _planOf(r.planId).terms;
        uint256 length = terms.interval;
        if (terms.months) length = r.paidThrough - Almanac.earlier(r.paidThrough, terms.interval, r.anchor);
        return (terms.amount * (r.paidThrough - clock)) / length;
    }

    function _expectChangePlan(
        bytes32 id,
        bytes32 newPlanId,
        uint256 cap,
        uint256 maxCharge
    ) internal returns (bytes memory) {
        (bytes memory err, uint256 charge, ) = _expectQuote(id, newPlanId);
        if (err.length != 0) return err;
        if (charge > maxCharge) return abi.encodeWithSelector(ITurnpike.ChargeAboveMax.selector, charge, maxCharge);
        err = _expectCap(cap);
        if (err.length != 0) return err;
        Record storage r = records[id];
        if (r.version == LAST_VERSION) return abi.encodeWithSelector(ITurnpike.VersionExhausted.selector, id);
        Terms storage terms = _planOf(newPlanId).terms;
        if (charge != 0) err = _expectCollect(terms.token, r.subscriber, terms.payTo, charge);
        if (err.length != 0) return err;
        r.version += 1;
        _enter(r, newPlanId, clock);
        // An allowance once made is rewritten; a cap of zero makes none.
        if (cap + r.cap + r.spent + r.cycle + r.debits != 0) {
            (r.cap, r.spent, r.cycle) = (cap, 0, r.paidThrough);
        }
        return "";
    }

    function _expectSetMaxOverage(bytes32 id, uint256 cap) internal returns (bytes memory err) {
        Record storage r = records[id];
        if (_statusAt(r, clock) == Status.CANCELLED) return _notActive(id, Status.CANCELLED);
        err = _expectCap(cap);
        if (err.length == 0) err = _expectBump(id);
        if (err.length != 0) return err;
        r.cap = cap;
    }

    function _expectRenew(bytes32 id) internal returns (bytes memory err) {
        Record storage r = records[id];
        if (_planOf(r.planId).stopped) return _closed(_planOf(r.planId));
        if (_fallsDue(r) && !_isDue(r)) return _closed(_planOf(r.nextPlanId));
        if (!_isDue(r)) {
            Status status = _statusAt(r, clock);
            if (status != Status.ACTIVE) return _notActive(id, status);
            if (r.ending) return abi.encodeWithSelector(ITurnpike.Ending.selector, id);
            return abi.encodeWithSelector(ITurnpike.RenewalNotDue.selector, id, r.paidThrough);
        }
        err = _expectPrice(r);
        if (err.length != 0) return err;
        Terms storage terms = _planOf(r.planId).terms;
        bool lapsed = clock >= r.paidThrough + terms.grace;
        _enter(r, _nextPlanOf(r), lapsed ? clock - terms.grace : r.paidThrough);
    }

    function _expectDebit(address caller, bytes32 id, uint256 amount, uint256 index) internal returns (bytes memory) {
        Record storage r = records[id];
        if (_planOf(r.planId).stopped) return _closed(_planOf(r.planId));
        Status status = _statusAt(r, clock);
        if (status != Status.ACTIVE) return _notActive(id, status);
        if (rights[r.planId][caller] & DEBIT == 0) {
            return abi.encodeWithSelector(ITurnpike.NotOperator.selector, r.planId, caller);
        }
        if (amount == 0) return abi.encodeWithSelector(ITurnpike.ZeroAmount.selector);
        if (index != r.debits) return abi.encodeWithSelector(ITurnpike.StaleDebit.selector, id, index, r.debits);
        uint256 remaining = _remaining(r);
        if (amount > remaining) {
            return abi.encodeWithSelector(ITurnpike.AllowanceExhausted.selector, id, amount, remaining);
        }
        Terms storage terms = _planOf(r.planId).terms;
        bytes memory err = _expectCollect(terms.token, r.subscriber, terms.payTo, amount);
        if (err.length != 0) return err;
        r.spent = r.cycle == r.paidThrough ? r.spent + amount : amount;
        r.cycle = r.paidThrough;
        r.debits += 1;
        return "";
    }

    // ------------------------------------------------------------------ comparison

    /// @dev What Turnpike shows of a record, against what it should, in every field.
    function _compare(bytes32 id, SubscriptionState memory actual) internal view {
        Record storage r = records[id];
        SubscriptionState memory expected;
        expected.subscription = SubscriptionView({
            idHash: id,
            subscriber: r.subscriber,
            planId: r.planId,
            paidThrough: uint40(r.paidThrough),
            version: uint16(r.version),
            paused: r.paused,
            ending: _endsWithPeriod(r),
            cancelled: r.cancelled,
            intro: r.intro,
            anchorDay: uint8(r.anchor),
            until: uint40(r.until),
            nextPlanId: r.nextPlanId,
            status: _statusAt(r, clock)
        });
        expected.allowance = AllowanceView({
            cap: r.cap,
            spent: r.cycle == r.paidThrough ? r.spent : 0,
            remaining: _remaining(r),
            cycle: uint40(r.cycle),
            debits: uint40(r.debits)
        });
        if (keccak256(abi.encode(expected)) != keccak256(abi.encode(actual))) {
            revert Unexpected("record", abi.encode(expected), abi.encode(actual));
        }
    }

    function _compareMoney(address token, address account) internal view {
        uint256 balance = _balance(token, account);
        if (balance != balances[token][account]) {
            revert Unexpected("balance", abi.encode(account, balances[token][account]), abi.encode(account, balance));
        }
    }
}
