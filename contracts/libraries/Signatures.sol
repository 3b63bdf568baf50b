// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/* solhint-disable no-inline-assembly */

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";

/// @title Signatures of keys and of contract wallets
/// @notice The key comes first, also for an account with code: an EIP-7702 account may sign with its own key. No
/// ERC-6492: an account without code is never called.
library Signatures {
    /// @dev What a wallet may use for its answer. P-256 in Solidity takes 250,000 (OpenZeppelin) to 350,000.
    uint256 internal constant WALLET_GAS = 500_000;

    function isValid(address signer, bytes32 digest, bytes memory signature) internal view returns (bool) {
        (address recovered, ECDSA.RecoverError err, ) = ECDSA.tryRecover(digest, signature);
        if (err == ECDSA.RecoverError.NoError && recovered == signer) return true;
        return
            signer.code.length != 0 && _accepts(signer, abi.encodeCall(IERC1271.isValidSignature, (digest, signature)));
    }

    /// @dev In assembly, because a high-level call gives all gas and copies all of the returndata.
    function _accepts(address wallet, bytes memory question) private view returns (bool accepted) {
        bytes4 yes = IERC1271.isValidSignature.selector;
        assembly ("memory-safe") {
            accepted := staticcall(WALLET_GAS, wallet, add(question, 0x20), mload(question), 0x00, 0x20)
            accepted := and(accepted, and(gt(returndatasize(), 0x1f), eq(mload(0x00), yes)))
        }
    }
}
