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

/// @title Many signed one-time payments in one transaction
/// @notice Holds nothing, stores nothing, emits nothing: the tokens' own `AuthorizationUsed` and `Transfer` logs are
/// the evidence.
interface IBatchSettler {
    /// @notice Thrown when too little gas is left to give the next item `gasPerItem`; nothing happened.
    /// @dev Remedy: a higher gas limit, a smaller batch, or less gas per item.
    error InsufficientGas(uint256 available, uint256 required);

    /// @notice Submits each transfer to its token. One that is used, expired, not yet valid, malformed or underfunded
    /// is skipped, and so is one to this contract, which could never move what it received.
    /// @dev Anyone; the payers have signed who receives what. Repeatable without harm: an authorization moves funds
    /// once. No value of an item reverts the call, not even an address with dirty upper bytes. Calldata that is no
    /// array of transfers does: an item or a signature whose offset or length leads out of it reverts the whole call.
    /// @param gasPerItem gas for each token call; what is not used is kept. 150,000 is ample for a stablecoin.
    /// @return ok whether the token's call succeeded, in the order of `transfers`. It is not evidence of payment: there
    /// are tokens that answer a used nonce with success and move nothing. That is the token's `Transfer` log.
    function settle(Transfer[] calldata transfers, uint256 gasPerItem) external returns (bool[] memory ok);
}
