// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @notice The standing of a subscription at a block's time. Computed, never stored: see `ITurnpike.statusOf`.
enum Status {
    NONE, // no such record
    ACTIVE, // served
    PAST_DUE, // not served; anyone may still collect
    EXPIRED, // not served; only the subscriber can resume
    PAUSED, // not served; only the subscriber can resume
    CANCELLED // final
}

/// @notice A provider's terms. They never change once a plan stands on them.
struct Terms {
    address token; // ERC-20 that is paid; see `ITurnpike.createPlan` for what it must guarantee
    uint96 amount; // price of one period, base units, > 0
    uint32 interval; // length of one period, seconds, > 0
    uint32 grace; // service after paidThrough while a renewal is awaited, seconds, < interval
    address payTo; // receives every charge and debit
}

/// @notice An EIP-2612 permit for Turnpike as spender.
struct Permit {
    uint256 value; // base units
    uint256 deadline; // unix seconds, inclusive; 0: no permit is given, and the rest is ignored
    uint8 v;
    bytes32 r;
    bytes32 s;
}

/// @notice A subscriber's signature over one act.
struct Auth {
    uint16 version; // the record's current version; any other is refused
    uint256 deadline; // unix seconds, inclusive
    bytes signature; // 65 bytes r || s || v, or whatever the subscriber's ERC-1271 wallet accepts
}

/// @notice One pull under an allowance.
struct Debit {
    bytes32 idHash;
    uint256 amount; // base units, > 0
    uint256 index; // the number of debits made so far: each index is taken once
}

/// @notice A plan as stored.
struct PlanView {
    bytes32 planId; // zero: unknown, and all else too
    uint32 index; // from 1 on, in order of creation
    address provider;
    Terms terms;
    bool deprecated;
    bytes32 successor; // zero: none named
}

/// @notice A subscription as stored, with its status at the current block's time.
struct SubscriptionView {
    bytes32 idHash;
    address subscriber; // zero: unknown
    bytes32 planId;
    uint40 paidThrough; // unix seconds, exclusive end of the paid period
    uint16 version; // what the next signature must name
    bool paused;
    bool ending; // cancelled at the period's end
    bool cancelled;
    Status status;
}

/// @notice An allowance as stored, with what remains in the current cycle.
struct AllowanceView {
    uint256 cap; // base units per cycle
    uint256 spent; // base units in the current cycle; zero when the stored figure belongs to an older one
    uint256 remaining; // cap - spent, never below zero; only an ACTIVE subscription can be debited
    uint40 cycle; // the paidThrough that the stored figure belongs to
    uint40 debits; // number of debits ever made: the next debit's index
}

/// @notice What a gate needs to know about one subscription, in one read.
struct SubscriptionState {
    SubscriptionView subscription;
    AllowanceView allowance;
}
