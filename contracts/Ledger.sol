// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Hashes} from "@openzeppelin/contracts/utils/cryptography/Hashes.sol";
import {Auth, ITurnpike, Status} from "./interfaces/ITurnpike.sol";
import {Records} from "./Records.sol";
import {Signatures} from "./libraries/Signatures.sol";
import {Standing} from "./libraries/Standing.sol";
import {PayeeWord, SubscriptionWord} from "./libraries/Words.sol";

/// @title Who may act on the records
/// @notice What the parts of Turnpike share: look-ups that refuse the unknown, and the proof that a subscriber agreed
/// to an act. It moves no token.
abstract contract Ledger is Records, ITurnpike, EIP712 {
    using Standing for SubscriptionWord;

    uint16 private constant LAST_VERSION = type(uint16).max;

    // ------------------------------------------------------------------ look-ups

    function _existingPlan(bytes32 planId) internal view returns (uint32 planIndex, PlanRecord storage plan) {
        planIndex = _planIndexOf[planId];
        if (planIndex == 0) revert UnknownPlan(planId);
        plan = _plans[planIndex];
    }

    function _existing(bytes32 idHash) internal view returns (SubscriptionWord s) {
        s = _subscriptions[idHash].word;
        if (!s.exists()) revert SubscriptionNotActive(idHash, Status.NONE);
    }

    function _statusOf(bytes32 idHash, SubscriptionWord s) internal view returns (Status) {
        return s.statusAt(_plans[s.planIndex()].payee, _untilOf(idHash, s), block.timestamp);
    }

    function _tokenOf(SubscriptionWord s) internal view returns (address) {
        return _plans[s.planIndex()].price.token();
    }

    /// @dev For a plan that takes no subscription: what is stopped is deprecated, too.
    function _revertClosed(bytes32 planId, PayeeWord payee) internal pure {
        if (payee.isStopped()) revert PlanStopped(planId);
        revert PlanDeprecated(planId);
    }

    /// @dev 0: not limited. Others read no further word.
    function _untilOf(bytes32 idHash, SubscriptionWord s) internal view returns (uint40) {
        return s.isLimited() ? _nexts[idHash].until() : 0;
    }

    /// @dev keccak256(abi.encode(subscriber, secretHash))
    function _idHashOf(address subscriber, bytes32 secretHash) internal pure returns (bytes32) {
        return Hashes.efficientKeccak256(bytes32(uint256(uint160(subscriber))), secretHash);
    }

    // ------------------------------------------------------------------ periods

    /// @dev The plan of the next charged period: a scheduled change applies now.
    function _takeNextPlan(bytes32 idHash, SubscriptionWord s) internal returns (uint32 planIndex) {
        if (!s.hasNext()) return s.planIndex();
        planIndex = _nexts[idHash].nextPlanIndex();
        PlanRecord storage plan = _plans[planIndex];
        if (plan.payee.isStopped()) revert PlanStopped(plan.planId);
        emit ChangeMade(idHash, plan.planId);
    }

    /// @dev The record with one period of the plan from `start` on. A change may be to periods that are shorter than
    /// the grace before it: one that would be over already starts the new plan's grace ago, as after a lapse.
    function _withPeriod(
        bytes32 idHash,
        SubscriptionWord s,
        uint32 planIndex,
        uint256 start
    ) internal returns (SubscriptionWord) {
        uint256 before = s.anchorDay();
        PayeeWord payee = _plans[planIndex].payee;
        (uint256 end, uint256 anchor) = Standing.periodFrom(start, payee, before);
        if (end <= block.timestamp) {
            (end, anchor) = Standing.periodFrom(block.timestamp - payee.grace(), payee, before);
        }
        if (anchor != before) emit Anchored(idHash, uint8(anchor));
        return s.withPeriod(planIndex, end, anchor);
    }

    // ------------------------------------------------------------------ who acts

    /// @dev Whether a signature has to prove the act: false for the subscriber's own call. Refuses who brings none.
    function _isSigned(bytes32 idHash, SubscriptionWord s, Auth calldata auth) internal view returns (bool) {
        if (s.subscriber() == msg.sender) return false;
        if (auth.deadline == 0) revert NotSubscriber(idHash, msg.sender);
        if (auth.version != s.version()) revert StaleVersion(idHash, auth.version, s.version());
        return true;
    }

    /// @dev Refuses unless `auth` is the subscriber's signature over `structHash`, with the version that was judged.
    function _requireAuth(SubscriptionWord s, bytes32 structHash, Auth calldata auth) internal view {
        _requireSignature(s.subscriber(), structHash, auth.deadline, auth.signature);
    }

    function _requireSignature(
        address signer,
        bytes32 structHash,
        uint256 deadline,
        bytes memory signature
    ) internal view {
        if (block.timestamp > deadline) revert SignatureExpired(deadline);
        if (!Signatures.isValid(signer, _hashTypedDataV4(structHash), signature)) revert InvalidSignature(signer);
    }

    /// @dev Every act of the subscriber voids the signatures made before it.
    function _bumped(bytes32 idHash, SubscriptionWord s) internal pure returns (SubscriptionWord) {
        if (s.version() == LAST_VERSION) revert VersionExhausted(idHash);
        return s.withNextVersion();
    }

    /// @dev For the two acts that must always be possible: the last version is kept. Neither can be replayed to any
    /// effect, because both leave a record that is cancelled, or ending already.
    function _bumpedOrLast(SubscriptionWord s) internal pure returns (SubscriptionWord) {
        return s.version() == LAST_VERSION ? s : s.withNextVersion();
    }

    /// @dev The narrowing is safe: larger caps are refused.
    function _checkedCap(uint256 cap) internal pure returns (uint88) {
        if (cap > type(uint88).max) revert CapTooLarge(cap, type(uint88).max);
        return uint88(cap);
    }
}
