// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/* solhint-disable no-inline-assembly */

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";

/// @title What a wallet that is not deployed yet would answer (ERC-6492), in one call
/// @notice Never deployed, as AccountLens: its creation code runs in an `eth_call`, so that nothing it does remains. It
/// deploys the wallet through its factory, asks the wallet for its signature, and tries the token transfer.
/// @dev Never send this code in a transaction: it calls what the payer names.
contract WalletLens {
    struct Trial {
        address wallet;
        address factory;
        bytes factoryData;
        uint256 deployGas; // for the factory's call
        bytes32 digest;
        bytes signature; // without the wrapper of ERC-6492
        address token;
        bytes transfer; // the token call that moves the payment
    }

    /// @dev As Turnpike's Signatures.WALLET_GAS.
    uint256 private constant SIGNATURE_GAS = 500_000;
    uint256 private constant TRANSFER_GAS = 400_000;

    /// @dev Returns no code but three words: whether the wallet has code after the factory's call, whether it accepts
    /// the signature, whether the transfer succeeds.
    constructor(Trial memory t) {
        _call(t.factory, t.deployGas, t.factoryData);
        bool deployed = t.wallet.code.length != 0;
        bool accepted = deployed && _accepts(t.wallet, t.digest, t.signature);
        bool moved = accepted && _call(t.token, TRANSFER_GAS, t.transfer);
        bytes memory encoded = abi.encode(deployed, accepted, moved);
        assembly ("memory-safe") {
            return(add(encoded, 0x20), mload(encoded))
        }
    }

    /// @dev A high-level call would copy all of the returndata.
    function _call(address target, uint256 gasLimit, bytes memory data) private returns (bool ok) {
        assembly ("memory-safe") {
            ok := call(gasLimit, target, 0, add(data, 0x20), mload(data), 0x00, 0x00)
        }
    }

    function _accepts(address wallet, bytes32 digest, bytes memory signature) private view returns (bool accepted) {
        bytes4 yes = IERC1271.isValidSignature.selector;
        bytes memory question = abi.encodeCall(IERC1271.isValidSignature, (digest, signature));
        assembly ("memory-safe") {
            accepted := staticcall(SIGNATURE_GAS, wallet, add(question, 0x20), mload(question), 0x00, 0x20)
            accepted := and(accepted, and(gt(returndatasize(), 0x1f), eq(mload(0x00), yes)))
        }
    }
}
