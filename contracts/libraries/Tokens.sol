// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/* solhint-disable no-inline-assembly */

import {IERC20} from "@openzeppelin/contracts/token/ERC20/IERC20.sol";
import {IERC20Permit} from "@openzeppelin/contracts/token/ERC20/extensions/IERC20Permit.sol";
import {ITurnpike} from "../interfaces/ITurnpike.sol";
import {Permit} from "../interfaces/TurnpikeTypes.sol";

/// @title Guarded calls to tokens that nobody vouched for
/// @notice Every call has a gas limit and copies at most one word of what comes back, so that neither a gas burner nor
/// a megabyte of returndata reaches the caller. Tokens never get to choose a revert reason: failures are diagnosed
/// here.
/// @dev The assembly is needed for that: a high-level call copies all of the returndata.
library Tokens {
    uint256 internal constant TOKEN_GAS = 300_000; // for transferFrom and permit
    uint256 internal constant DIAGNOSIS_GAS = 50_000; // for each of balanceOf and allowance, on the failing path only

    /// @dev permit(address,address,uint256,uint256,bytes), which some tokens have for contract wallets.
    bytes4 private constant PERMIT_BYTES = 0x9fd5a6cf;

    /// @notice Moves `amount` from `from` to `to`, or reverts with the most likely cause.
    /// @dev Success is no returndata from an account with code (tokens that return nothing), or exactly one word 1.
    function collect(address token, address from, address to, uint256 amount) internal {
        bytes4 selector = IERC20.transferFrom.selector;
        bool ok;
        assembly ("memory-safe") {
            let ptr := mload(0x40)
            mstore(ptr, selector)
            mstore(add(ptr, 0x04), and(from, shr(96, not(0))))
            mstore(add(ptr, 0x24), and(to, shr(96, not(0))))
            mstore(add(ptr, 0x44), amount)
            ok := call(TOKEN_GAS, token, 0, ptr, 0x64, 0x00, 0x20)
            if iszero(and(ok, and(eq(returndatasize(), 0x20), eq(mload(0x00), 1)))) {
                ok := and(ok, and(iszero(returndatasize()), gt(extcodesize(token), 0)))
            }
        }
        if (!ok) _revertWithCause(token, from, to, amount);
    }

    /// @notice Submits an EIP-2612 permit for this contract and ignores its outcome.
    /// @dev Someone may have submitted it first, out of the mempool: what counts is whether the approval suffices,
    /// which the charge that follows finds out.
    function tryPermit(address token, address owner, Permit memory permit) internal {
        bytes memory signature = permit.signature;
        bytes memory data;
        if (signature.length == 65) {
            (uint8 v, bytes32 r, bytes32 s) = _split(signature);
            data = abi.encodeCall(IERC20Permit.permit, (owner, address(this), permit.value, permit.deadline, v, r, s));
        } else {
            data = abi.encodeWithSelector(PERMIT_BYTES, owner, address(this), permit.value, permit.deadline, signature);
        }
        assembly ("memory-safe") {
            pop(call(TOKEN_GAS, token, 0, add(data, 0x20), mload(data), 0x00, 0x00))
        }
    }

    /// @param signature 65 bytes
    function _split(bytes memory signature) private pure returns (uint8 v, bytes32 r, bytes32 s) {
        assembly ("memory-safe") {
            r := mload(add(signature, 0x20))
            s := mload(add(signature, 0x40))
            v := byte(0, mload(add(signature, 0x60)))
        }
    }

    function _revertWithCause(address token, address from, address to, uint256 amount) private view {
        (bool known, uint256 available) = _read(token, abi.encodeCall(IERC20.balanceOf, (from)));
        if (known && available < amount) revert ITurnpike.InsufficientFunds(from, token, amount, available);
        (known, available) = _read(token, abi.encodeCall(IERC20.allowance, (from, address(this))));
        if (known && available < amount) revert ITurnpike.InsufficientApproval(from, token, amount, available);
        revert ITurnpike.TransferFailed(token, from, to, amount);
    }

    /// @dev One word from a view of the token; `known` is false when it fails or answers less than a word.
    function _read(address token, bytes memory data) private view returns (bool known, uint256 value) {
        assembly ("memory-safe") {
            known := staticcall(DIAGNOSIS_GAS, token, add(data, 0x20), mload(data), 0x00, 0x20)
            known := and(known, gt(returndatasize(), 0x1f))
            value := mload(0x00)
        }
    }
}
