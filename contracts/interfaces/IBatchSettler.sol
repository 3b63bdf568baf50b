// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @notice One EIP-3009 transfer that `from` has signed.
struct Transfer {
    address token;
    address from;
    address to;
    uint256 value; // base units
    uint256 validAfter; // unix seconds, exclusive
    uint256 validBefore; // unix seconds, exclusive
    bytes32 nonce;
    bytes signature; // 65 bytes r || s || v: the v,r,s form; any other length: the bytes form (ERC-1271)
}

interface IBatchSettler {
    error InsufficientGas(uint256 available, uint256 required);

    /// @notice Submits each transfer to its token; a used, expired, malformed or underfunded one is skipped.
    /// @param gasPerItem gas given to each token call; too little left for the next item reverts the whole call.
    /// @return ok whether the token's call succeeded. Not evidence of payment: that is the token's `Transfer` log.
    function settle(Transfer[] calldata transfers, uint256 gasPerItem) external returns (bool[] memory ok);
}
