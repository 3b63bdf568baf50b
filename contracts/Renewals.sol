// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike, Status} from "./interfaces/ITurnpike.sol";
import {Ledger} from "./Ledger.sol";
import {Frames} from "./libraries/Frames.sol";
import {Standing} from "./libraries/Standing.sol";
import {Tokens} from "./libraries/Tokens.sol";
import {PayeeWord, PriceWord, SubscriptionWord} from "./libraries/Words.sol";

/// @title Renewals: collecting a due period, by anyone, for the plan's payee alone
abstract contract Renewals is Ledger {
    using Standing for SubscriptionWord;

    /// @inheritdoc ITurnpike
    function renew(bytes32 idHash) external {
        _renew(idHash);
    }

    /// @inheritdoc ITurnpike
    function renewBatch(bytes32[] calldata idHashes) external returns (bytes4[] memory reasons) {
        reasons = new bytes4[](idHashes.length);
        bytes memory frame = abi.encodeCall(this.renewInner, (0));
        for (uint256 i = 0; i < idHashes.length; ++i) {
            bytes32 idHash = idHashes[i];
            Frames.setArgument(frame, idHash);
            bytes4 reason = Frames.run(frame);
            if (reason != 0) {
                reasons[i] = reason;
                emit RenewalFailed(idHash, reason);
            }
        }
    }

    /// @notice One item of `renewBatch`, in its own frame. Only this contract may call it.
    function renewInner(bytes32 idHash) external {
        if (msg.sender != address(this)) revert OnlySelf(msg.sender);
        _renew(idHash);
    }

    function _renew(bytes32 idHash) private {
        SubscriptionRecord storage subscription = _subscriptions[idHash];
        SubscriptionWord s = subscription.word;
        PlanRecord storage plan = _plans[s.planIndex()];
        PayeeWord payee = plan.payee;
        uint256 paidThrough;
        if (s.isPlain()) {
            paidThrough = s.renewedThrough(payee, block.timestamp);
            if (paidThrough == 0) _revertNotCollectable(idHash, s, plan, s.statusAt(payee, 0, block.timestamp));
            s = s.withPaidThrough(paidThrough);
        } else {
            Status status = s.statusAt(payee, _untilOf(idHash, s), block.timestamp);
            if (block.timestamp < s.paidThrough() || (status != Status.ACTIVE && status != Status.PAST_DUE)) {
                _revertNotCollectable(idHash, s, plan, status);
            }
            uint256 start = s.nextStart(payee, block.timestamp);
            s = _withPeriod(idHash, s, _takeNextPlan(idHash, s), start);
            paidThrough = s.paidThrough();
            plan = _plans[s.planIndex()];
            payee = plan.payee;
        }

        subscription.word = s;
        emit Renewed(idHash, uint40(paidThrough));

        PriceWord price = plan.price;
        Tokens.collect(price.token(), s.subscriber(), payee.payTo(), price.amount());
    }

    function _revertNotCollectable(
        bytes32 idHash,
        SubscriptionWord s,
        PlanRecord storage plan,
        Status status
    ) private view {
        if (plan.payee.isStopped()) revert PlanStopped(plan.planId);
        if (status != Status.ACTIVE) revert SubscriptionNotActive(idHash, status);
        if (s.isEnding()) revert Ending(idHash); // it will end, never fall due
        revert RenewalNotDue(idHash, s.paidThrough());
    }
}
