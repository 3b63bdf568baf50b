// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/* solhint-disable no-inline-assembly */

/// @title What tokens say of many accounts, in one call
/// @notice Never deployed: its creation code runs in an `eth_call` without a receiver, so that it works on every chain.
/// What the creation returns is no code but the ABI-encoded answers, one for each query, in their order.
/// @dev A creation returns at most 24,576 bytes: 254 answers.
contract AccountLens {
    struct Query {
        address token;
        address account;
        bytes4 selector; // of a view of the token, whose first argument is `account`
        bytes32 argument; // the second; a view with one argument ignores it
    }

    struct Answer {
        uint256 codeSize; // of the account, in bytes
        bool answered; // the call succeeded and returned at least a word
        uint256 word; // the first that it returned; 0 when not answered
    }

    /// @dev For each call, so that a token which burns its gas leaves enough for the others. It is twice what Turnpike
    /// spends on the same views. With 100 queries the whole stays below 16,777,216, the most that EIP-7825 accepts.
    uint256 private constant CALL_GAS = 100_000;

    constructor(Query[] memory queries) {
        Answer[] memory answers = new Answer[](queries.length);
        for (uint256 i = 0; i < queries.length; ++i) answers[i] = _ask(queries[i]);
        bytes memory encoded = abi.encode(answers);
        assembly ("memory-safe") {
            return(add(encoded, 0x20), mload(encoded))
        }
    }

    /// @dev A high-level call would copy all of the returndata, and revert where a token has no code.
    function _ask(Query memory query) private view returns (Answer memory) {
        address token = query.token;
        bytes memory data = abi.encodeWithSelector(query.selector, query.account, query.argument);
        bool answered;
        uint256 word;
        assembly ("memory-safe") {
            answered := staticcall(CALL_GAS, token, add(data, 0x20), mload(data), 0x00, 0x20)
            answered := and(answered, gt(returndatasize(), 0x1f))
            if answered {
                word := mload(0x00)
            }
        }
        return Answer({codeSize: query.account.code.length, answered: answered, word: word});
    }
}
