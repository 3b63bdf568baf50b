// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/* solhint-disable no-inline-assembly */

import {IBatchSettler, Transfer} from "./interfaces/IBatchSettler.sol";

/// @title BatchSettler: many signed one-time payments in one transaction
/// @notice Stateless, without an owner, and never a party to a transfer: anyone may submit what payers have signed.
contract BatchSettler is IBatchSettler {
    /// @dev transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,uint8,bytes32,bytes32)
    bytes4 private constant TRANSFER_VRS = 0xe3ee160e;
    /// @dev transferWithAuthorization(address,address,uint256,uint256,uint256,bytes32,bytes)
    bytes4 private constant TRANSFER_BYTES = 0xcf092995;
    /// @dev Left to this contract for recording the outcome.
    uint256 private constant ITEM_OVERHEAD_GAS = 10_000;

    /// @inheritdoc IBatchSettler
    function settle(Transfer[] calldata transfers, uint256 gasPerItem) external returns (bool[] memory ok) {
        ok = new bool[](transfers.length);
        // Saturating: an absurd gasPerItem must end in InsufficientGas, not in a panic.
        uint256 required = gasPerItem > type(uint64).max ? gasPerItem : (gasPerItem * 64) / 63 + ITEM_OVERHEAD_GAS;
        for (uint256 i = 0; i < transfers.length; ++i) {
            ok[i] = _submit(transfers[i], gasPerItem, required);
        }
    }

    /// @dev The call is written over free memory and not kept: a new encoding for each item would cost 700 gas more.
    /// 65 bytes of signature go through the v,r,s form, because there are tokens that have no other; all else through
    /// the bytes form. No returndata is copied, so that a token which answers with megabytes costs no more than its
    /// gas. An account without code would "succeed": it does not count.
    ///
    /// Token and receiver are read as words: read as addresses, one dirty upper byte would revert the whole batch. The
    /// call ignores those bytes of the token; the token's own decoder refuses those of the receiver.
    function _submit(Transfer calldata t, uint256 gasPerItem, uint256 required) private returns (bool ok) {
        address token;
        address to;
        assembly ("memory-safe") {
            token := and(calldataload(t), shr(96, not(0)))
            to := and(calldataload(add(t, 0x40)), shr(96, not(0)))
        }
        if (to == address(this)) return false;
        bytes calldata signature = t.signature;
        bytes4 selector = signature.length == 65 ? TRANSFER_VRS : TRANSFER_BYTES;
        bytes4 starved = InsufficientGas.selector;
        assembly ("memory-safe") {
            let data := mload(0x40)
            mstore(data, selector)
            // from, to, value, validAfter, validBefore, nonce: six words of the item, and of either call
            calldatacopy(add(data, 0x04), add(t, 0x20), 0xc0)
            let tail := add(data, 0xc4)
            let end
            switch signature.length
            case 65 {
                mstore(tail, byte(0, calldataload(add(signature.offset, 0x40)))) // v
                calldatacopy(add(tail, 0x20), signature.offset, 0x40) // r, s
                end := add(tail, 0x60)
            }
            default {
                mstore(tail, 0xe0) // where the bytes begin: after seven words
                mstore(add(tail, 0x20), signature.length)
                let body := add(tail, 0x40)
                calldatacopy(body, signature.offset, signature.length)
                mstore(add(body, signature.length), 0) // padding
                end := add(body, and(add(signature.length, 0x1f), not(0x1f)))
            }
            // After the encoding, whose cost a long signature drives up.
            let available := gas()
            if lt(available, required) {
                mstore(data, starved)
                mstore(add(data, 0x04), available)
                mstore(add(data, 0x24), required)
                revert(data, 0x44)
            }
            ok := call(gasPerItem, token, 0, data, sub(end, data), 0x00, 0x00)
            if iszero(returndatasize()) {
                ok := and(ok, gt(extcodesize(token), 0))
            }
        }
    }
}
