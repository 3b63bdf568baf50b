// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Multicall} from "@openzeppelin/contracts/utils/Multicall.sol";
import {ITurnpike, SubscriptionState} from "./interfaces/ITurnpike.sol";
import {Allowances} from "./Allowances.sol";
import {Plans} from "./Plans.sol";
import {Renewals} from "./Renewals.sol";
import {Subscriptions} from "./Subscriptions.sol";

/// @title Turnpike: plans, subscriptions and allowances that never hold a token
/// @notice Immutable and without an owner. Every payment is one `transferFrom` from the subscriber to the plan's payee.
contract Turnpike is Plans, Subscriptions, Renewals, Allowances, Multicall {
    constructor() EIP712("Turnpike", "1") {}

    /// @inheritdoc ITurnpike
    /// @dev A delegatecall to itself keeps the caller, and no function is payable: a call inside is what it would be
    /// alone, but for sharing the others' fate.
    function multicall(bytes[] calldata data) public override(ITurnpike, Multicall) returns (bytes[] memory results) {
        return super.multicall(data);
    }

    /// @inheritdoc ITurnpike
    function getStates(bytes32[] calldata idHashes) external view returns (SubscriptionState[] memory states) {
        states = new SubscriptionState[](idHashes.length);
        for (uint256 i = 0; i < idHashes.length; ++i) {
            states[i] = SubscriptionState({
                subscription: _subscriptionView(idHashes[i]),
                allowance: _allowanceView(idHashes[i])
            });
        }
    }
}
