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
        for (uint256 i = 0; i < idHashes.length; ++i) {
            Frames.requireGas();
            try this.renewItem{gas: Frames.ITEM_GAS}(idHashes[i]) {} catch (bytes memory revertData) {
                reasons[i] = Frames.reasonOf(revertData);
                emit RenewalFailed(idHashes[i], reasons[i]);
            }
        }
    }

    /// @notice One item of `renewBatch`, in its own frame. Only this contract may call it.
    function renewItem(bytes32 idHash) external {
        if (msg.sender != address(this)) revert OnlySelf(msg.sender);
        _renew(idHash);
    }

    function _renew(bytes32 idHash) private {
        SubscriptionWord s = _subscriptions[idHash];
        PlanRecord storage plan = _plans[s.planIndex()];
        PayeeWord payee = plan.payee;
        if (!s.isCollectable(payee, block.timestamp)) _revertNotCollectable(idHash, s, payee);

        uint40 paidThrough = Standing.renewedThrough(s.paidThrough(), payee, block.timestamp);
        _subscriptions[idHash] = s.withPaidThrough(paidThrough);
        emit Renewed(idHash, paidThrough);

        PriceWord price = plan.price;
        Tokens.collect(price.token(), s.subscriber(), payee.payTo(), price.amount());
    }

    function _revertNotCollectable(bytes32 idHash, SubscriptionWord s, PayeeWord payee) private view {
        Status status = s.statusAt(payee, block.timestamp);
        if (status != Status.ACTIVE) revert SubscriptionNotActive(idHash, status);
        if (s.isEnding()) revert Ending(idHash); // it will end, never fall due
        revert RenewalNotDue(idHash, s.paidThrough());
    }
}
