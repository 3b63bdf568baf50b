// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/* solhint-disable no-inline-assembly */

import {Debit, ITurnpike} from "../interfaces/ITurnpike.sol";

/// @title Isolation of batch items
/// @notice An item runs in a call of the contract to itself, so that its revert undoes all that it did and nothing
/// else.
library Frames {
    /// @dev What an item is given, whatever gas limit the relayer chose: 300,000 for the token, twice 50,000 for the
    /// diagnosis, and 50,000 for the work around them. A renewal with a scheduled change needs 28,000 for it with all
    /// storage cold; the rest is for what the rule of 63/64 keeps back.
    uint256 internal constant ITEM_GAS = 450_000;

    /// @dev With less than this left before an item, ITEM_GAS cannot be promised: the rule of 63/64, and 10,000 for the
    /// way to the call and for recording the outcome.
    uint256 internal constant REQUIRED_GAS = (ITEM_GAS * 64) / 63 + 10_000;

    /// @dev Writes the only argument of an encoded `renewInner`: one buffer serves a whole batch. A new encoding
    /// for each item would cost 400 gas and ever more memory. After 32 bytes of length and 4 of selector.
    function setArgument(bytes memory frame, bytes32 idHash) internal pure {
        assembly ("memory-safe") {
            mstore(add(frame, 0x24), idHash)
        }
    }

    /// @dev Writes the first three arguments of an encoded `debitInner`, which are the three fields of a debit.
    function setArguments(bytes memory frame, Debit calldata debit) internal pure {
        assembly ("memory-safe") {
            calldatacopy(add(frame, 0x24), debit, 0x60)
        }
    }

    /// @notice Runs one item in its own frame.
    /// @dev Reverts when ITEM_GAS cannot be given: a relayer that starves items must not be able to record false
    /// failures. In assembly, because try and catch cost 300 gas more per item.
    /// @return reason zero on success, otherwise the selector of the item's error; never zero then.
    function run(bytes memory frame) internal returns (bytes4 reason) {
        uint256 available = gasleft();
        if (available < REQUIRED_GAS) revert ITurnpike.InsufficientGas(available, REQUIRED_GAS);
        bytes4 unexplained = ITurnpike.TransferFailed.selector;
        assembly ("memory-safe") {
            if iszero(call(ITEM_GAS, address(), 0, add(frame, 0x20), mload(frame), 0x00, 0x04)) {
                // Fewer than four bytes: out of gas, in a token or wallet that burnt all it was given.
                reason := unexplained
                if gt(returndatasize(), 3) {
                    reason := and(mload(0x00), shl(224, 0xffffffff))
                }
            }
        }
    }
}
