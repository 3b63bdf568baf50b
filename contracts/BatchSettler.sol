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
    /// @dev For the way to the call and for recording its outcome.
    uint256 private constant ITEM_OVERHEAD_GAS = 10_000;

    /// @inheritdoc IBatchSettler
    function settle(Transfer[] calldata transfers, uint256 gasPerItem) external returns (bool[] memory ok) {
        ok = new bool[](transfers.length);
        // Saturating: an absurd gasPerItem must end in InsufficientGas, not in a panic.
        uint256 required = gasPerItem > type(uint64).max ? gasPerItem : (gasPerItem * 64) / 63 + ITEM_OVERHEAD_GAS;
        for (uint256 i = 0; i < transfers.length; ++i) {
            uint256 available = gasleft();
            if (available < required) revert InsufficientGas(available, required);
            ok[i] = transfers[i].to != address(this) && _submit(transfers[i], gasPerItem);
        }
    }

    /// @dev At most no returndata is copied, so that a token which answers with megabytes costs no more than its gas.
    /// An account without code would "succeed": it does not count.
    function _submit(Transfer calldata t, uint256 gasLimit) private returns (bool ok) {
        bytes memory data = _encode(t);
        address token = t.token;
        assembly ("memory-safe") {
            ok := call(gasLimit, token, 0, add(data, 0x20), mload(data), 0x00, 0x00)
            if iszero(returndatasize()) {
                ok := and(ok, gt(extcodesize(token), 0))
            }
        }
    }

    /// @dev 65 bytes go through the v,r,s form, because Paxos tokens have no other; all else through the bytes form.
    function _encode(Transfer calldata t) private pure returns (bytes memory) {
        bytes calldata sig = t.signature;
        if (sig.length == 65) {
            (bytes32 r, bytes32 s, uint8 v) = (bytes32(sig[:32]), bytes32(sig[32:64]), uint8(sig[64]));
            return
                abi.encodeWithSelector(
                    TRANSFER_VRS,
                    t.from,
                    t.to,
                    t.value,
                    t.validAfter,
                    t.validBefore,
                    t.nonce,
                    v,
                    r,
                    s
                );
        }
        return abi.encodeWithSelector(TRANSFER_BYTES, t.from, t.to, t.value, t.validAfter, t.validBefore, t.nonce, sig);
    }
}
