// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {SignatureChecker} from "@openzeppelin/contracts/utils/cryptography/SignatureChecker.sol";
import {Auth, ITurnpike, Status} from "./interfaces/ITurnpike.sol";
import {Standing} from "./libraries/Standing.sol";
import {AllowanceWord, OwnerWord, PayeeWord, PriceWord, SubscriptionWord} from "./libraries/Words.sol";

/// @title The records, and who may act on them
/// @notice What the four halves of Turnpike share: storage, look-ups that refuse the unknown, and the proof that a
/// subscriber stands behind an act. It moves no token and emits nothing.
abstract contract Ledger is ITurnpike, EIP712 {
    using Standing for SubscriptionWord;

    /// @dev Four words: a renewal reads the first two, a debit too. Terms never change once written.
    struct PlanRecord {
        PriceWord price; // slot 0: token160 | amount96
        PayeeWord payee; // slot 1: payTo160 | interval32 | grace32 | flags8
        OwnerWord owner; // slot 2: provider160 | successorIndex32
        bytes32 planId; // slot 3
    }

    /// @dev A struct of one word, so that a storage pointer is computed once and serves for reading and writing.
    struct SubscriptionRecord {
        SubscriptionWord word; // slot 0: subscriber160 | paidThrough40 | planIndex32 | version16 | flags8
    }

    /// @dev As above.
    struct AllowanceRecord {
        AllowanceWord word; // slot 0: cap88 | spent88 | cycle40 | debits40
    }

    uint16 private constant LAST_VERSION = type(uint16).max;

    // slots 0 and 1 belong to EIP712 (unused: name and version fit into immutables)

    /// @dev By idHash; one word each. A record is never deleted: the used idHash stays as a tombstone.
    mapping(bytes32 idHash => SubscriptionRecord) internal _subscriptions; // slot 2
    /// @dev By idHash; one word each, made when a cap is first granted.
    mapping(bytes32 idHash => AllowanceRecord) internal _allowances; // slot 3
    /// @dev By the compact index that a subscription stores; 1 is the first.
    mapping(uint256 planIndex => PlanRecord) internal _plans; // slot 4
    /// @dev Zero: unknown.
    mapping(bytes32 planId => uint32 planIndex) internal _planIndexOf; // slot 5
    /// @dev One word for each pair, see `_operatorKey`: a debit reads just this one.
    mapping(uint256 operatorKey => bool allowed) internal _operators; // slot 6
    uint32 internal _planCount; // slot 7

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

    function _statusOf(SubscriptionWord s) internal view returns (Status) {
        return s.statusAt(_plans[s.planIndex()].payee, block.timestamp);
    }

    function _idHashOf(address subscriber, bytes32 secretHash) internal pure returns (bytes32) {
        return keccak256(abi.encode(subscriber, secretHash));
    }

    function _operatorKey(uint32 planIndex, address operator) internal pure returns (uint256) {
        return (uint256(planIndex) << 160) | uint160(operator);
    }

    // ------------------------------------------------------------------ who acts

    /// @dev The record, if the caller is its subscriber.
    function _ownedByCaller(bytes32 idHash) internal view returns (SubscriptionWord s) {
        s = _existing(idHash);
        if (s.subscriber() != msg.sender) revert NotSubscriber(idHash, msg.sender);
    }

    /// @dev Refuses unless `auth` is the subscriber's signature over `structHash` at the record's current version.
    function _requireAuth(bytes32 idHash, SubscriptionWord s, bytes32 structHash, Auth calldata auth) internal view {
        if (auth.version != s.version()) revert StaleVersion(idHash, auth.version, s.version());
        _requireSignature(s.subscriber(), structHash, auth.deadline, auth.signature);
    }

    /// @dev The key comes first, also for an account with code: an EIP-7702 account may sign with its own key. No
    /// ERC-6492: an account without code is never called.
    function _requireSignature(
        address signer,
        bytes32 structHash,
        uint256 deadline,
        bytes calldata signature
    ) internal view {
        if (block.timestamp > deadline) revert SignatureExpired(deadline);
        bytes32 digest = _hashTypedDataV4(structHash);
        (address recovered, ECDSA.RecoverError err, ) = ECDSA.tryRecoverCalldata(digest, signature);
        if (err == ECDSA.RecoverError.NoError && recovered == signer) return;
        if (signer.code.length != 0) {
            if (SignatureChecker.isValidERC1271SignatureNowCalldata(signer, digest, signature)) return;
        }
        revert InvalidSignature(signer);
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
