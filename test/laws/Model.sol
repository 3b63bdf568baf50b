// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {
    AllowanceView,
    ITurnpike,
    Status,
    SubscriptionState,
    SubscriptionView,
    Terms
} from "../../contracts/interfaces/ITurnpike.sol";
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
        uint256 cap;
        uint256 spent;
        uint256 cycle;
        uint256 debits;
    }

    uint256 internal constant LAST_VERSION = 65_535;

    bytes32[] internal ids; // of every record that ever was
    mapping(bytes32 idHash => Record) internal records;
    mapping(bytes32 planId => mapping(address operator => bool)) internal mayDebit;
    mapping(address token => mapping(address account => uint256)) internal balances;
    mapping(address token => mapping(address account => uint256)) internal approvals;

    // ------------------------------------------------------------------ standing

    function _statusAt(Record storage r, uint256 t) internal view returns (Status) {
        if (r.subscriber == address(0)) return Status.NONE;
        if (r.cancelled) return Status.CANCELLED;
        if (r.ending && t >= r.paidThrough) return Status.CANCELLED;
        if (r.paused) return Status.PAUSED;
        Terms storage terms = _planOf(r.planId).terms;
        if (t >= r.paidThrough + terms.interval) return Status.EXPIRED;
        return t >= r.paidThrough + terms.grace ? Status.PAST_DUE : Status.ACTIVE;
    }

    function _isDue(Record storage r) internal view returns (bool) {
        Status status = _statusAt(r, clock);
        if (status == Status.PAST_DUE) return true;
        return status == Status.ACTIVE && !r.ending && clock >= r.paidThrough;
    }

    function _remaining(Record storage r) internal view returns (uint256) {
        uint256 spent = r.cycle == r.paidThrough ? r.spent : 0;
        return r.cap > spent ? r.cap - spent : 0;
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
        Terms storage terms = _planOf(r.planId).terms;
        return _expectCollect(terms.token, r.subscriber, terms.payTo, terms.amount);
    }

    function _isFunded(Record storage r) internal view returns (bool) {
        Terms storage terms = _planOf(r.planId).terms;
        return
            balances[terms.token][r.subscriber] >= terms.amount && approvals[terms.token][r.subscriber] >= terms.amount;
    }

    // ------------------------------------------------------------------ acts

    function _expectSubscribe(
        address subscriber,
        bytes32 planId,
        bytes32 id,
        uint256 cap
    ) internal returns (bytes memory err) {
        if (planAt[planId] == 0) return abi.encodeWithSelector(ITurnpike.UnknownPlan.selector, planId);
        Plan storage plan = _planOf(planId);
        if (plan.deprecated) return abi.encodeWithSelector(ITurnpike.PlanDeprecated.selector, planId);
        Record storage r = records[id];
        if (r.subscriber != address(0)) return abi.encodeWithSelector(ITurnpike.IdHashUsed.selector, id);
        err = _expectCap(cap);
        if (err.length != 0) return err;
        err = _expectCollect(plan.terms.token, subscriber, plan.terms.payTo, plan.terms.amount);
        if (err.length != 0) return err;
        r.subscriber = subscriber;
        r.planId = planId;
        r.paidThrough = clock + plan.terms.interval;
        if (cap != 0) {
            r.cap = cap;
            r.cycle = r.paidThrough;
        }
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
            return abi.encodeWithSelector(ITurnpike.NothingToResume.selector, id, status);
        }
        if (clock < r.paidThrough) {
            err = _expectBump(id);
            if (err.length == 0) r.paused = false;
            return err;
        }
        if (plan.deprecated) return abi.encodeWithSelector(ITurnpike.PlanDeprecated.selector, plan.id);
        if (plan.terms.amount > maxCharge) {
            return abi.encodeWithSelector(ITurnpike.ChargeAboveMax.selector, plan.terms.amount, maxCharge);
        }
        if (r.version == LAST_VERSION) return abi.encodeWithSelector(ITurnpike.VersionExhausted.selector, id);
        err = _expectPrice(r);
        if (err.length != 0) return err;
        r.version += 1;
        r.paused = false;
        r.paidThrough = clock + plan.terms.interval;
        if (status == Status.EXPIRED) r.paidThrough -= plan.terms.grace;
    }

    /// @dev `bumps`: by the subscriber, whose acts void the signatures before them.
    function _expectCancel(bytes32 id, bool atPeriodEnd, bool bumps) internal returns (bytes memory) {
        Record storage r = records[id];
        if (_statusAt(r, clock) == Status.CANCELLED) return _notActive(id, Status.CANCELLED);
        if (atPeriodEnd && clock < r.paidThrough) r.ending = true;
        else r.cancelled = true;
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
        (r.cap, r.spent, r.cycle, r.debits) = (0, 0, 0, 0);
        return "";
    }

    function _expectQuote(
        bytes32 id,
        bytes32 newPlanId
    ) internal view returns (bytes memory err, uint256 charge, uint256 credit) {
        Record storage r = records[id];
        Status status = _statusAt(r, clock);
        if (status != Status.ACTIVE) return (_notActive(id, status), 0, 0);
        if (r.ending) return (abi.encodeWithSelector(ITurnpike.Ending.selector, id), 0, 0);
        if (clock >= r.paidThrough) {
            return (abi.encodeWithSelector(ITurnpike.RenewalDue.selector, id, r.paidThrough), 0, 0);
        }
        if (planAt[newPlanId] == 0) return (abi.encodeWithSelector(ITurnpike.UnknownPlan.selector, newPlanId), 0, 0);
        Plan storage plan = _planOf(r.planId);
        Plan storage next = _planOf(newPlanId);
        bool kin =
            plan.provider == next.provider &&
                plan.terms.token == next.terms.token &&
                plan.terms.payTo == next.terms.payTo;
        if (!kin || plan.id == next.id) {
            return (abi.encodeWithSelector(ITurnpike.PlanMismatch.selector, plan.id, newPlanId), 0, 0);
        }
        if (next.deprecated) return (abi.encodeWithSelector(ITurnpike.PlanDeprecated.selector, newPlanId), 0, 0);
        credit = (plan.terms.amount * (r.paidThrough - clock)) / plan.terms.interval;
        uint256 price = next.terms.amount;
        if (credit > price) {
            return (abi.encodeWithSelector(ITurnpike.CreditExceedsPrice.selector, credit, price), 0, 0);
        }
        return ("", price - credit, credit);
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
        r.planId = newPlanId;
        r.paidThrough = clock + terms.interval;
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
        if (!_isDue(r)) {
            Status status = _statusAt(r, clock);
            if (status != Status.ACTIVE) return _notActive(id, status);
            if (r.ending) return abi.encodeWithSelector(ITurnpike.Ending.selector, id);
            return abi.encodeWithSelector(ITurnpike.RenewalNotDue.selector, id, r.paidThrough);
        }
        err = _expectPrice(r);
        if (err.length != 0) return err;
        Terms storage terms = _planOf(r.planId).terms;
        uint256 late = clock - r.paidThrough;
        r.paidThrough += terms.interval + (late > terms.grace ? late - terms.grace : 0);
    }

    function _expectDebit(address caller, bytes32 id, uint256 amount, uint256 index) internal returns (bytes memory) {
        Record storage r = records[id];
        Status status = _statusAt(r, clock);
        if (status != Status.ACTIVE) return _notActive(id, status);
        if (!mayDebit[r.planId][caller]) {
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
            ending: r.ending,
            cancelled: r.cancelled,
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
