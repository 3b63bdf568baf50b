// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike, Terms} from "../../contracts/interfaces/ITurnpike.sol";
import {PlanView, SubscriptionState} from "../../contracts/interfaces/ITurnpikeLens.sol";
import {Log} from "./Vm.sol";
import {World} from "./World.sol";

/// @notice Rebuilds every record from Turnpike's events alone, as an indexer has to.
abstract contract Replay is World {
    struct Row {
        address subscriber;
        bytes32 planId;
        uint256 paidThrough;
        uint256 version;
        bool paused;
        bool ending;
        bool cancelled;
        bool intro;
        uint256 anchor;
        uint256 until;
        bytes32 nextPlanId;
        bytes32 changedTo; // by a `ChangeMade` whose period is not charged yet
        uint256 cap;
        uint256 spent;
        uint256 cycle;
        uint256 debits;
    }

    struct PlanRow {
        address provider;
        Terms terms;
        bool deprecated;
        bool stopped;
        bytes32 successor;
        address firstPayTo;
        address proposedPayTo;
        uint256 effectiveAt;
        address nextProvider;
    }

    bytes32[] internal rowIds;
    mapping(bytes32 idHash => Row) internal rows;
    mapping(bytes32 planId => PlanRow) internal planRows;
    mapping(bytes32 planId => mapping(address account => uint256)) internal rightRows;

    function _replay(Log memory log) internal {
        bytes32 topic = log.topics[0];
        bytes32 id = log.topics[1]; // every event's first index is the record's or the plan's
        Row storage row = rows[id];
        if (topic == ITurnpike.Renewed.selector) {
            _replayPeriod(row);
            row.paidThrough = abi.decode(log.data, (uint40));
        } else if (topic == ITurnpike.Debited.selector) {
            (uint256 amount, uint256 index) = abi.decode(log.data, (uint256, uint256));
            row.spent = row.cycle == row.paidThrough ? row.spent + amount : amount;
            row.cycle = row.paidThrough;
            row.debits = index + 1;
        } else if (topic == ITurnpike.Subscribed.selector) {
            (uint256 cap, uint40 paidThrough) = abi.decode(log.data, (uint256, uint40));
            row.planId = log.topics[2];
            row.subscriber = address(uint160(uint256(log.topics[3])));
            row.paidThrough = paidThrough;
            if (cap != 0) (row.cap, row.cycle) = (cap, paidThrough);
            rowIds.push(id);
        } else if (topic == ITurnpike.MaxOverageSet.selector) {
            row.cap = abi.decode(log.data, (uint256));
            row.version += 1;
        } else if (topic == ITurnpike.PlanChanged.selector) {
            _replayPlanChanged(row, log);
        } else if (topic == ITurnpike.Paused.selector) {
            row.paused = true;
            row.version += 1;
        } else if (topic == ITurnpike.Resumed.selector) {
            (uint256 charged, uint40 paidThrough) = abi.decode(log.data, (uint256, uint40));
            if (charged != 0) _replayPeriod(row);
            row.paused = false;
            row.paidThrough = paidThrough;
            row.version += 1;
        } else if (topic == ITurnpike.Cancelled.selector) {
            (bool atPeriodEnd, address by) = abi.decode(log.data, (bool, address));
            if (atPeriodEnd) row.ending = true;
            else row.cancelled = true;
            row.nextPlanId = bytes32(0);
            if (by == row.subscriber) _bump(row);
        } else if (topic == ITurnpike.Rekeyed.selector) {
            bytes32 newId = log.topics[2];
            rows[newId] = row;
            rows[newId].version = 0;
            rowIds.push(newId);
            (row.cancelled, row.cap, row.spent, row.cycle, row.debits) = (true, 0, 0, 0, 0);
            (row.until, row.nextPlanId) = (0, bytes32(0));
            _bump(row);
        } else {
            _replayTerms(row, id, log);
        }
    }

    /// @dev What a record has of months, of its limits, of vouchers and of changes.
    function _replayTerms(Row storage row, bytes32 id, Log memory log) private {
        bytes32 topic = log.topics[0];
        if (topic == ITurnpike.Anchored.selector) {
            row.anchor = abi.decode(log.data, (uint8));
        } else if (topic == ITurnpike.NextSet.selector) {
            (uint40 until, bytes32 nextPlanId) = abi.decode(log.data, (uint40, bytes32));
            // At a signup it comes before `Subscribed`, and leaves version 0.
            if (row.subscriber != address(0)) row.version += 1;
            (row.until, row.nextPlanId) = (until, nextPlanId);
        } else if (topic == ITurnpike.ChangeMade.selector) {
            row.changedTo = log.topics[2];
        } else if (topic == ITurnpike.VoucherUsed.selector) {
            row.intro = true;
        } else if (topic == ITurnpike.Voided.selector) {
            row.subscriber = address(uint160(uint256(log.topics[2])));
            row.cancelled = true;
            rowIds.push(id);
        } else {
            _replayPlan(id, log);
        }
    }

    /// @dev A period was charged in full.
    function _replayPeriod(Row storage row) private {
        row.intro = false;
        row.nextPlanId = bytes32(0);
        if (row.changedTo != bytes32(0)) row.planId = row.changedTo;
        row.changedTo = bytes32(0);
    }

    function _bump(Row storage row) private {
        if (row.version < 65_535) row.version += 1;
    }

    function _replayPlanChanged(Row storage row, Log memory log) private {
        (uint256 cap, , uint40 paidThrough) = abi.decode(log.data, (uint256, uint256, uint40));
        _replayPeriod(row);
        row.planId = log.topics[2];
        row.paidThrough = paidThrough;
        row.version += 1;
        if (cap + row.cap + row.spent + row.cycle + row.debits != 0) {
            (row.cap, row.spent, row.cycle) = (cap, 0, paidThrough);
        }
    }

    function _replayPlan(bytes32 planId, Log memory log) private {
        bytes32 topic = log.topics[0];
        PlanRow storage plan = planRows[planId];
        if (topic == ITurnpike.PlanCreated.selector) {
            (, Terms memory terms, , ) = abi.decode(log.data, (uint32, Terms, bytes32, string));
            plan.provider = address(uint160(uint256(log.topics[2])));
            plan.terms = terms;
            plan.firstPayTo = terms.payTo;
        } else if (topic == ITurnpike.PlanClosed.selector) {
            plan.deprecated = true;
            plan.successor = abi.decode(log.data, (bytes32));
        } else if (topic == ITurnpike.PlanEnded.selector) {
            plan.stopped = true;
        } else if (topic == ITurnpike.OperatorSet.selector) {
            rightRows[planId][address(uint160(uint256(log.topics[2])))] = abi.decode(log.data, (uint8));
        } else if (topic == ITurnpike.PayToProposed.selector) {
            (plan.proposedPayTo, plan.effectiveAt, ) = abi.decode(log.data, (address, uint40, address));
        } else if (topic == ITurnpike.PayToMoved.selector) {
            plan.terms.payTo = abi.decode(log.data, (address));
            (plan.proposedPayTo, plan.effectiveAt) = (address(0), 0);
        } else if (topic == ITurnpike.PlanOffered.selector) {
            plan.nextProvider = abi.decode(log.data, (address));
        } else if (topic == ITurnpike.PlanTransferred.selector) {
            plan.provider = address(uint160(uint256(log.topics[2])));
            plan.nextProvider = address(0);
        }
    }

    /// @dev Every `stride`th row against the chain.
    function _replayAgrees(uint256 first, uint256 stride) internal view returns (bool) {
        if (first >= rowIds.length) return true;
        bytes32[] memory some = new bytes32[]((rowIds.length - first + stride - 1) / stride);
        for (uint256 i = 0; i < some.length; ++i) some[i] = rowIds[first + i * stride];
        SubscriptionState[] memory states = lens.getStates(some);
        for (uint256 i = 0; i < states.length; ++i) {
            if (!_rowAgrees(rows[some[i]], states[i])) return false;
        }
        return true;
    }

    function _rowAgrees(Row storage row, SubscriptionState memory state) private view returns (bool) {
        bool same =
            state.subscription.subscriber == row.subscriber &&
                state.subscription.planId == row.planId &&
                state.subscription.paidThrough == row.paidThrough &&
                state.subscription.version == row.version;
        same =
            same &&
            state.subscription.intro == row.intro &&
            state.subscription.anchorDay == row.anchor &&
            state.subscription.until == row.until &&
            state.subscription.nextPlanId == row.nextPlanId;
        same =
            same &&
            state.subscription.paused == row.paused &&
            state.subscription.ending == (row.ending || planRows[row.planId].stopped) &&
            state.subscription.cancelled == row.cancelled;
        return
            same &&
            state.allowance.cap == row.cap &&
            state.allowance.spent == (row.cycle == row.paidThrough ? row.spent : 0) &&
            state.allowance.cycle == row.cycle &&
            state.allowance.debits == row.debits;
    }

    function _planRowAgrees(bytes32 planId) internal view returns (bool) {
        PlanRow storage row = planRows[planId];
        PlanView memory v = lens.getPlan(planId);
        return
            keccak256(abi.encode(v.provider, v.terms, v.deprecated, v.stopped, v.successor)) ==
                keccak256(abi.encode(row.provider, row.terms, row.deprecated, row.stopped, row.successor)) &&
            keccak256(abi.encode(v.firstPayTo, v.proposedPayTo, v.effectiveAt, v.nextProvider)) ==
                keccak256(abi.encode(row.firstPayTo, row.proposedPayTo, row.effectiveAt, row.nextProvider)) &&
            _rightsAgree(planId);
    }

    function _rightsAgree(bytes32 planId) private view returns (bool) {
        for (uint256 i = 0; i < 2; ++i) {
            if (!_rightAgrees(planId, operators[i]) || !_rightAgrees(planId, providers[i])) return false;
        }
        return _rightAgrees(planId, issuer);
    }

    function _rightAgrees(bytes32 planId, address account) private view returns (bool) {
        return lens.rightsOf(planId, account) == rightRows[planId][account];
    }
}
