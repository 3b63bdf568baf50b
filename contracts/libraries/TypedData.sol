// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {NextTerms, Signup, Voucher} from "../interfaces/TurnpikeTypes.sol";
import {PayeeWord, PriceWord, StartWord} from "./Words.sol";

/// @title The EIP-712 messages that a subscriber signs
/// @notice Struct hashes only; the domain belongs to the contract. The subscriber is first, so that no signature serves
/// for another wallet of the same owner; version and deadline are last. What will be charged is in it, to whom and how
/// often, so that a person signs what a wallet shows.
library TypedData {
    bytes32 internal constant SUBSCRIBE = keccak256(
        "Subscribe(address subscriber,bytes32 planId,address token,address payTo,uint256 amount,uint256 interval,"
        "string unit,uint256 firstAmount,uint256 firstInterval,uint256 maxOverage,uint256 until,bytes32 secretHash,"
        "uint256 deadline)"
    );
    bytes32 internal constant VOUCHER = keccak256(
        "Voucher(bytes32 planId,address subscriber,bytes32 secretHash,address token,uint256 firstAmount,"
        "uint256 firstInterval,uint256 deadline)"
    );
    bytes32 internal constant VOID = keccak256("Void(address subscriber,bytes32 secretHash,uint256 deadline)");
    bytes32 internal constant PAUSE = keccak256(
        "Pause(address subscriber,bytes32 idHash,uint16 version,uint256 deadline)"
    );
    bytes32 internal constant RESUME = keccak256(
        "Resume(address subscriber,bytes32 idHash,address token,uint256 maxCharge,uint16 version,uint256 deadline)"
    );
    bytes32 internal constant CANCEL = keccak256(
        "Cancel(address subscriber,bytes32 idHash,bool atPeriodEnd,uint16 version,uint256 deadline)"
    );
    bytes32 internal constant SET_MAX_OVERAGE = keccak256(
        "SetMaxOverage(address subscriber,bytes32 idHash,address token,uint256 cap,uint16 version,uint256 deadline)"
    );
    bytes32 internal constant SET_NEXT = keccak256(
        "SetNext(address subscriber,bytes32 idHash,uint40 until,bytes32 nextPlanId,address token,address payTo,"
        "uint256 amount,uint256 interval,string unit,uint16 version,uint256 deadline)"
    );
    bytes32 internal constant CHANGE_PLAN = keccak256(
        "ChangePlan(address subscriber,bytes32 idHash,bytes32 newPlanId,address token,address payTo,uint256 amount,"
        "uint256 interval,string unit,uint256 maxOverage,uint256 maxCharge,uint16 version,uint256 deadline)"
    );
    bytes32 internal constant REKEY = keccak256(
        "Rekey(address subscriber,bytes32 idHash,bytes32 newSecretHash,uint16 version,uint256 deadline)"
    );

    bytes32 private constant SECONDS = keccak256("seconds");
    bytes32 private constant MONTHS = keccak256("months");
    bytes32 private constant NO_UNIT = keccak256("");

    /// @dev The terms are those of now: after the payee has moved, another message must be signed.
    function subscribe(
        address subscriber,
        Signup calldata signup,
        PriceWord price,
        PayeeWord payee,
        StartWord start,
        uint256 deadline
    ) internal pure returns (bytes32) {
        return
            keccak256(
                abi.encode(
                    SUBSCRIBE,
                    subscriber,
                    signup.planId,
                    price.token(),
                    payee.payTo(),
                    price.amount(),
                    payee.interval(),
                    _unit(payee),
                    start.firstAmount(),
                    start.firstInterval(),
                    signup.maxOverage,
                    start.until(),
                    signup.secretHash,
                    deadline
                )
            );
    }

    function voucher(
        address subscriber,
        Signup calldata signup,
        address token,
        Voucher memory given
    ) internal pure returns (bytes32) {
        return
            keccak256(
                abi.encode(
                    VOUCHER,
                    signup.planId,
                    subscriber,
                    signup.secretHash,
                    token,
                    given.firstAmount,
                    given.firstInterval,
                    given.deadline
                )
            );
    }

    function voiding(address subscriber, bytes32 secretHash, uint256 deadline) internal pure returns (bytes32) {
        return keccak256(abi.encode(VOID, subscriber, secretHash, deadline));
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
        address token,
        uint256 maxCharge,
        uint16 version,
        uint256 deadline
    ) internal pure returns (bytes32) {
        return keccak256(abi.encode(RESUME, subscriber, idHash, token, maxCharge, version, deadline));
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
        address token,
        uint256 cap,
        uint16 version,
        uint256 deadline
    ) internal pure returns (bytes32) {
        return keccak256(abi.encode(SET_MAX_OVERAGE, subscriber, idHash, token, cap, version, deadline));
    }

    /// @dev The terms as they were shown: that they are the plan's is not judged here.
    function setNext(
        address subscriber,
        bytes32 idHash,
        uint40 until,
        bytes32 nextPlanId,
        NextTerms calldata shown,
        uint16 version,
        uint256 deadline
    ) internal pure returns (bytes32) {
        bytes32 unit = shown.months ? MONTHS : SECONDS;
        return
            keccak256(
                abi.encode(
                    SET_NEXT,
                    subscriber,
                    idHash,
                    until,
                    nextPlanId,
                    shown.token,
                    shown.payTo,
                    shown.amount,
                    shown.interval,
                    nextPlanId == bytes32(0) ? NO_UNIT : unit,
                    version,
                    deadline
                )
            );
    }

    function changePlan(
        address subscriber,
        bytes32 idHash,
        bytes32 newPlanId,
        PriceWord price,
        PayeeWord payee,
        uint256 maxOverage,
        uint256 maxCharge,
        uint16 version,
        uint256 deadline
    ) internal pure returns (bytes32) {
        return
            keccak256(
                abi.encode(
                    CHANGE_PLAN,
                    subscriber,
                    idHash,
                    newPlanId,
                    price.token(),
                    payee.payTo(),
                    price.amount(),
                    payee.interval(),
                    _unit(payee),
                    maxOverage,
                    maxCharge,
                    version,
                    deadline
                )
            );
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

    function _unit(PayeeWord payee) private pure returns (bytes32) {
        return payee.isMonthly() ? MONTHS : SECONDS;
    }
}
