// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";

/// @title The least that moving a token many times can cost
/// @notice A yardstick for `bench/gas.ts`: no record, no rule, no isolation.
contract BareLoop {
    error TransferRefused(address from);

    function collect(IERC20 token, address[] calldata froms, address to, uint256 amount) external {
        for (uint256 i = 0; i < froms.length; ++i) {
            if (!token.transferFrom(froms[i], to, amount)) revert TransferRefused(froms[i]);
        }
    }
}
