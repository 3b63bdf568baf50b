// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike} from "../interfaces/ITurnpike.sol";

/// @title Isolation of batch items
/// @notice An item runs in a call of the contract to itself, so that its revert undoes all that it did and nothing else.
library Frames {
    /// @dev What an item is given, whatever gas limit the relayer chose: 300,000 for the token, twice 50,000 for the
    /// diagnosis, and 50,000 for the work around them with cold storage (17,000 by measure) and for what the rule of
    /// 63/64 keeps back.
    uint256 internal constant ITEM_GAS = 450_000;

    /// @dev With less than this left before an item, ITEM_GAS cannot be promised: the rule of 63/64, and 10,000 for the
    /// way to the call and for recording the outcome.
    uint256 internal constant REQUIRED_GAS = (ITEM_GAS * 64) / 63 + 10_000;

    /// @dev Before each item: a relayer that starves items must not be able to record false failures.
    function requireGas() internal view {
        uint256 available = gasleft();
        if (available < REQUIRED_GAS) revert ITurnpike.InsufficientGas(available, REQUIRED_GAS);
    }

    /// @dev The four bytes that tell why an item failed; never zero, which means success.
    function reasonOf(bytes memory revertData) internal pure returns (bytes4) {
        return revertData.length < 4 ? ITurnpike.TransferFailed.selector : bytes4(revertData);
    }
}
