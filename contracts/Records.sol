// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {
    AllowanceWord,
    NextWord,
    OwnerWord,
    PayeeWord,
    PriceWord,
    ProposalWord,
    SubscriptionWord
} from "./libraries/Words.sol";

/// @title The storage of Turnpike, and where each record is in it
/// @notice Turnpike has it first, so that slot 0 is its first; `TurnpikeLens` has the same, empty, to find the slots.
abstract contract Records {
    /// @dev Four words: a renewal reads the first two, a debit too. Token, price, interval and grace never change.
    struct PlanRecord {
        PriceWord price; // slot 0: token160 | amount96
        PayeeWord payee; // slot 1: payTo160 | interval32 | grace32 | flags
        OwnerWord owner; // slot 2: provider160 | successorIndex32
        bytes32 planId; // slot 3
    }

    /// @dev What moves a plan to another payee or provider; empty until one is proposed.
    struct MoveRecord {
        ProposalWord proposal; // slot 0: payTo160 | effectiveAt40 | BY_PAYEE1
        address nextProvider; // slot 1: zero: none is offered the plan
        address firstPayTo; // slot 2: what the planId proves; zero: the payee has never moved
    }

    /// @dev A struct of one word, so that a storage pointer is computed once and serves for reading and writing.
    struct SubscriptionRecord {
        SubscriptionWord word; // slot 0
    }

    /// @dev As above.
    struct AllowanceRecord {
        AllowanceWord word; // slot 0: cap88 | spent88 | cycle40 | debits40
    }

    /// @dev By idHash; one word each. A record is never deleted: the used idHash stays as a tombstone.
    mapping(bytes32 idHash => SubscriptionRecord) internal _subscriptions; // slot 0
    /// @dev By idHash; one word each, made when a cap is first granted.
    mapping(bytes32 idHash => AllowanceRecord) internal _allowances; // slot 1
    /// @dev By idHash; read only while the record is flagged LIMITED or NEXT.
    mapping(bytes32 idHash => NextWord) internal _nexts; // slot 2
    /// @dev By the compact index that a subscription stores; 1 is the first.
    mapping(uint256 planIndex => PlanRecord) internal _plans; // slot 3
    /// @dev By the same index.
    mapping(uint256 planIndex => MoveRecord) internal _moves; // slot 4
    /// @dev Zero: unknown.
    mapping(bytes32 planId => uint32 planIndex) internal _planIndexOf; // slot 5
    /// @dev One word for each pair, see `_operatorKey`: a debit reads just this one. Bits: `ITurnpike.setOperator`.
    mapping(uint256 operatorKey => uint8 rights) internal _rights; // slot 6
    uint32 internal _planCount; // slot 7

    function _operatorKey(uint32 planIndex, address account) internal pure returns (uint256) {
        return (uint256(planIndex) << 160) | uint160(account);
    }
}
