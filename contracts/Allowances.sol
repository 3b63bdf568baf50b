// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Auth, Debit, ITurnpike, Status} from "./interfaces/ITurnpike.sol";
import {DEBIT_RIGHT} from "./interfaces/TurnpikeTypes.sol";
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
    function setMaxOverage(bytes32 idHash, uint256 cap, Auth calldata auth) external {
        SubscriptionWord s = _existing(idHash);
        if (_isSigned(idHash, s, auth)) {
            (address subscriber, address token) = (s.subscriber(), _tokenOf(s));
            bytes32 structHash = TypedData.setMaxOverage(subscriber, idHash, token, cap, auth.version, auth.deadline);
            _requireAuth(s, structHash, auth);
        }
        Status status = _statusOf(idHash, s);
        if (status == Status.CANCELLED) revert SubscriptionNotActive(idHash, status);
        uint88 newCap = _checkedCap(cap);

        _subscriptions[idHash].word = _bumped(idHash, s);
        // What was spent in this cycle stays spent: lowering the cap and raising it again frees nothing.
        AllowanceRecord storage allowance = _allowances[idHash];
        allowance.word = allowance.word.withCap(newCap);
        emit MaxOverageSet(idHash, cap);
    }

    // ------------------------------------------------------------------ use

    /// @inheritdoc ITurnpike
    function debit(bytes32 idHash, uint256 amount, uint256 index) external {
        _debit(idHash, amount, index, msg.sender);
    }

    /// @inheritdoc ITurnpike
    function debitBatch(Debit[] calldata debits) external returns (bytes4[] memory reasons) {
        reasons = new bytes4[](debits.length);
        bytes memory frame = abi.encodeCall(this.debitInner, (0, 0, 0, msg.sender));
        for (uint256 i = 0; i < debits.length; ++i) {
            Debit calldata d = debits[i];
            Frames.setArguments(frame, d);
            bytes4 reason = Frames.run(frame);
            if (reason != 0) {
                reasons[i] = reason;
                emit DebitFailed(d.idHash, d.amount, d.index, reason);
            }
        }
    }

    /// @notice One item of `debitBatch` for its `caller`, in its own frame. Only this contract may call it.
    function debitInner(bytes32 idHash, uint256 amount, uint256 index, address caller) external {
        if (msg.sender != address(this)) revert OnlySelf(msg.sender);
        _debit(idHash, amount, index, caller);
    }

    // ------------------------------------------------------------------ internals

    function _debit(bytes32 idHash, uint256 amount, uint256 index, address caller) private {
        SubscriptionWord s = _subscriptions[idHash].word;
        uint32 planIndex = s.planIndex();
        PlanRecord storage plan = _plans[planIndex];
        PayeeWord payee = plan.payee;
        // Short for the record that every debit hopes to find.
        if (!s.isUnbounded() || payee.isStopped() || block.timestamp >= uint256(s.paidThrough()) + payee.grace()) {
            if (payee.isStopped()) revert PlanStopped(plan.planId);
            Status status = s.statusAt(payee, _untilOf(idHash, s), block.timestamp);
            if (status != Status.ACTIVE) revert SubscriptionNotActive(idHash, status);
        }
        if (_rights[_operatorKey(planIndex, caller)] & DEBIT_RIGHT == 0) revert NotOperator(plan.planId, caller);
        if (amount == 0) revert ZeroAmount();
        AllowanceRecord storage allowance = _allowances[idHash];
        AllowanceWord a = allowance.word.inCycle(s.paidThrough());
        if (index != a.debits()) revert StaleDebit(idHash, index, a.debits());
        if (amount > a.remaining()) revert AllowanceExhausted(idHash, amount, a.remaining());

        allowance.word = a.debited(amount);
        emit Debited(idHash, amount, index);

        Tokens.collect(plan.price.token(), s.subscriber(), payee.payTo(), amount);
    }
}
