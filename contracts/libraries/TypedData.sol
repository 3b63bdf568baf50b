// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The EIP-712 messages that a subscriber signs
/// @notice Struct hashes only; the domain belongs to the contract. Subscriber and record first, version and deadline
/// last. The subscriber is inside, so that no signature serves for another wallet of the same owner.
library TypedData {
    bytes32 internal constant SUBSCRIBE = keccak256(
        "Subscribe(address subscriber,bytes32 planId,bytes32 secretHash,uint256 maxOverage,uint256 deadline)"
    );
    bytes32 internal constant PAUSE = keccak256(
        "Pause(address subscriber,bytes32 idHash,uint16 version,uint256 deadline)"
    );
    bytes32 internal constant RESUME = keccak256(
        "Resume(address subscriber,bytes32 idHash,uint256 maxCharge,uint16 version,uint256 deadline)"
    );
    bytes32 internal constant CANCEL = keccak256(
        "Cancel(address subscriber,bytes32 idHash,bool atPeriodEnd,uint16 version,uint256 deadline)"
    );
    bytes32 internal constant SET_MAX_OVERAGE = keccak256(
        "SetMaxOverage(address subscriber,bytes32 idHash,uint256 cap,uint16 version,uint256 deadline)"
    );
    bytes32 internal constant CHANGE_PLAN = keccak256(
        "ChangePlan(address subscriber,bytes32 idHash,bytes32 newPlanId,uint256 maxOverage,"
        "uint256 maxCharge,uint16 version,uint256 deadline)"
    );
    bytes32 internal constant REKEY = keccak256(
        "Rekey(address subscriber,bytes32 idHash,bytes32 newSecretHash,uint16 version,uint256 deadline)"
    );

    function subscribe(
        address subscriber,
        bytes32 planId,
        bytes32 secretHash,
        uint256 maxOverage,
        uint256 deadline
    ) internal pure returns (bytes32) {
        return keccak256(abi.encode(SUBSCRIBE, subscriber, planId, secretHash, maxOverage, deadline));
    }

    function pause(
        address subscriber,
        bytes32 idHash,
        uint16 version,
        uint256 deadline
    ) internal pure returns (bytes32) {
        return keccak256(abi.encode(PAUSE, subscriber, idHash, version, deadline));
    }

    function resume(
        address subscriber,
        bytes32 idHash,
        uint256 maxCharge,
        uint16 version,
        uint256 deadline
    ) internal pure returns (bytes32) {
        return keccak256(abi.encode(RESUME, subscriber, idHash, maxCharge, version, deadline));
    }

    function cancel(
        address subscriber,
        bytes32 idHash,
        bool atPeriodEnd,
        uint16 version,
        uint256 deadline
    ) internal pure returns (bytes32) {
        return keccak256(abi.encode(CANCEL, subscriber, idHash, atPeriodEnd, version, deadline));
    }

    function setMaxOverage(
        address subscriber,
        bytes32 idHash,
        uint256 cap,
        uint16 version,
        uint256 deadline
    ) internal pure returns (bytes32) {
        return keccak256(abi.encode(SET_MAX_OVERAGE, subscriber, idHash, cap, version, deadline));
    }

    function changePlan(
        address subscriber,
        bytes32 idHash,
        bytes32 newPlanId,
        uint256 maxOverage,
        uint256 maxCharge,
        uint16 version,
        uint256 deadline
    ) internal pure returns (bytes32) {
        return
            keccak256(abi.encode(CHANGE_PLAN, subscriber, idHash, newPlanId, maxOverage, maxCharge, version, deadline));
    }

    function rekey(
        address subscriber,
        bytes32 idHash,
        bytes32 newSecretHash,
        uint16 version,
        uint256 deadline
    ) internal pure returns (bytes32) {
        return keccak256(abi.encode(REKEY, subscriber, idHash, newSecretHash, version, deadline));
    }
}
