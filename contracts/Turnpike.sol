// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/* solhint-disable no-inline-assembly */

import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";
import {Multicall} from "@openzeppelin/contracts/utils/Multicall.sol";
import {ITurnpike} from "./interfaces/ITurnpike.sol";
import {Allowances} from "./Allowances.sol";
import {Plans} from "./Plans.sol";
import {Renewals} from "./Renewals.sol";
import {Subscriptions} from "./Subscriptions.sol";
import {TurnpikeLens} from "./TurnpikeLens.sol";

/// @title Turnpike: plans, subscriptions and allowances that never hold a token
/// @notice Immutable and without an owner. Every payment is one `transferFrom` from the subscriber to the plan's payee.
contract Turnpike is Plans, Subscriptions, Renewals, Allowances, Multicall {
    /// @dev Turnpike's first creation: the lens's address follows from this contract's.
    constructor() EIP712("Turnpike", "1") {
        new TurnpikeLens(this);
    }

    /// @inheritdoc ITurnpike
    /// @dev A delegatecall to itself keeps the caller, and no function is payable: a call inside is what it would be
    /// alone, but for sharing the others' fate.
    function multicall(bytes[] calldata data) public override(ITurnpike, Multicall) returns (bytes[] memory results) {
        return super.multicall(data);
    }

    /// @inheritdoc ITurnpike
    function words(bytes32[] calldata slots) external view returns (bytes32[] memory values) {
        values = new bytes32[](slots.length);
        for (uint256 i = 0; i < slots.length; ++i) {
            bytes32 slot = slots[i];
            bytes32 value;
            assembly ("memory-safe") {
                value := sload(slot)
            }
            values[i] = value;
        }
    }
}
