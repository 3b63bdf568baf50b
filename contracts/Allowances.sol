// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AllowanceView, Auth, Debit, ITurnpike, Status} from "./interfaces/ITurnpike.sol";
import {Ledger} from "./Ledger.sol";
import {Frames} from "./libraries/Frames.sol";
import {Standing} from "./libraries/Standing.sol";
import {Tokens} from "./libraries/Tokens.sol";
import {TypedData} from "./libraries/TypedData.sol";
import {AllowanceWord, PayeeWord, SubscriptionWord} from "./libraries/Words.sol";

/// @title Allowances: metered overage, up to a cap in each cycle
abstract contract Allowances is Ledger {
    using Standing for SubscriptionWord;

    // ------------------------------------------------------------------ grant

    /// @inheritdoc ITurnpike
    function setMaxOverage(bytes32 idHash, uint256 cap) external {
        _setMaxOverage(idHash, _ownedByCaller(idHash), cap);
    }

    /// @inheritdoc ITurnpike
    function setMaxOverageBySig(bytes32 idHash, uint256 cap, Auth calldata auth) external {
        SubscriptionWord s = _existing(idHash);
        bytes32 structHash = TypedData.setMaxOverage(s.subscriber(), idHash, cap, auth.version, auth.deadline);
        _requireAuth(idHash, s, structHash, auth);
        _setMaxOverage(idHash, s, cap);
    }

    // ------------------------------------------------------------------ use

    /// @inheritdoc ITurnpike
    function debit(bytes32 idHash, uint256 amount, uint256 index) external {
        _debit(msg.sender, idHash, amount, index);
    }

    /// @inheritdoc ITurnpike
    function debitBatch(Debit[] calldata debits) external returns (bytes4[] memory reasons) {
        reasons = new bytes4[](debits.length);
        for (uint256 i = 0; i < debits.length; ++i) {
            Debit calldata d = debits[i];
            Frames.requireGas();
            try this.debitItem{gas: Frames.ITEM_GAS}(msg.sender, d.idHash, d.amount, d.index) {} catch (
                bytes memory revertData
            ) {
                reasons[i] = Frames.reasonOf(revertData);
                emit DebitFailed(d.idHash, d.amount, d.index, reasons[i]);
            }
        }
    }

    /// @notice One item of `debitBatch` for its `caller`, in its own frame. Only this contract may call it.
    function debitItem(address caller, bytes32 idHash, uint256 amount, uint256 index) external {
        if (msg.sender != address(this)) revert OnlySelf(msg.sender);
        _debit(caller, idHash, amount, index);
    }

    // ------------------------------------------------------------------ views

    /// @inheritdoc ITurnpike
    function getAllowance(bytes32 idHash) external view returns (AllowanceView memory) {
        return _allowanceView(idHash);
    }

    // ------------------------------------------------------------------ internals

    function _setMaxOverage(bytes32 idHash, SubscriptionWord s, uint256 cap) private {
        Status status = _statusOf(s);
        if (status == Status.CANCELLED) revert SubscriptionNotActive(idHash, status);
        uint88 newCap = _checkedCap(cap);

        _subscriptions[idHash] = _bumped(idHash, s);
        // What was spent in this cycle stays spent: lowering the cap and raising it again frees nothing.
        _allowances[idHash] = _allowances[idHash].withCap(newCap);
        emit MaxOverageSet(idHash, cap);
    }

    function _debit(address caller, bytes32 idHash, uint256 amount, uint256 index) private {
        SubscriptionWord s = _subscriptions[idHash];
        uint32 planIndex = s.planIndex();
        PlanRecord storage plan = _plans[planIndex];
        PayeeWord payee = plan.payee;
        Status status = s.statusAt(payee, block.timestamp);
        if (status != Status.ACTIVE) revert SubscriptionNotActive(idHash, status);
        if (!_operators[_operatorKey(planIndex, caller)]) revert NotOperator(plan.planId, caller);
        if (amount == 0) revert ZeroAmount();
        AllowanceWord a = _allowances[idHash];
        if (index != a.debits()) revert StaleDebit(idHash, index, a.debits());
        uint40 cycle = s.paidThrough();
        uint88 spent = a.spentIn(cycle);
        uint256 remaining = _remaining(a.cap(), spent);
        if (amount > remaining) revert AllowanceExhausted(idHash, amount, remaining);

        // Neither sum nor cast can overflow: spent + amount <= cap, which is a uint88.
        unchecked {
            _allowances[idHash] = a.debited(uint88(spent + amount), cycle);
        }
        emit Debited(idHash, amount, index);

        Tokens.collect(plan.price.token(), s.subscriber(), payee.payTo(), amount);
    }

    function _allowanceView(bytes32 idHash) internal view returns (AllowanceView memory) {
        AllowanceWord a = _allowances[idHash];
        uint256 spent = a.spentIn(_subscriptions[idHash].paidThrough());
        return
            AllowanceView({
                cap: a.cap(),
                spent: spent,
                remaining: _remaining(a.cap(), spent),
                cycle: a.cycle(),
                debits: a.debits()
            });
    }

    /// @dev A cap that was lowered below what is spent leaves nothing.
    function _remaining(uint256 cap, uint256 spent) private pure returns (uint256) {
        unchecked {
            return spent < cap ? cap - spent : 0;
        }
    }
}
