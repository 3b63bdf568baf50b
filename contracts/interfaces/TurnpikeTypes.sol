// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

// What an account may do on a plan: bits of `ITurnpike.setOperator`.
uint8 constant DEBIT_RIGHT = 1; // debit allowances
uint8 constant VOUCHER_RIGHT = 2; // sign vouchers for signups
uint8 constant RECEIPT_RIGHT = 4; // sign usage receipts: so a bill can be checked with nothing but the chain
uint8 constant ALL_RIGHTS = 7;

/// @notice The standing of a subscription at a block's time. Computed, never stored: see `ITurnpike.statusOf`.
enum Status {
    NONE, // no such record
    ACTIVE, // served
    PAST_DUE, // not served; anyone may still collect
    EXPIRED, // not served; only the subscriber can resume
    PAUSED, // not served; only the subscriber can resume
    CANCELLED // final
}

/// @notice A provider's terms. Only the payee can change once a plan has them: see `ITurnpike.proposePayTo`.
struct Terms {
    address token; // ERC-20 that is paid; see `ITurnpike.createPlan` for what it must guarantee
    uint96 amount; // price of one period, base units, > 0
    uint32 interval; // length of one period, > 0: seconds, or months up to 1,200
    bool months; // whether `interval` counts calendar months (UTC)
    uint32 grace; // service after paidThrough while a renewal is awaited, seconds, shorter than any period
    address payTo; // receives every charge and debit
}

/// @notice The terms of the plan that a subscriber schedules, as it was shown them. All zero: no plan.
struct NextTerms {
    address token;
    address payTo; // the present one
    uint96 amount; // base units
    uint32 interval; // seconds, or months
    bool months;
}

/// @notice What a signup says besides who signs up.
struct Signup {
    bytes32 planId;
    bytes32 secretHash; // keccak256 of 32 secret bytes
    uint256 maxOverage; // cap of debits in each cycle, base units; 0: no allowance
    uint40 until; // unix seconds, from which on nothing is charged but debits of the paid period; 0: no end
}

/// @notice A provider's offer of another first period, to one subscriber for one secret.
struct Voucher {
    address signer; // an account with the VOUCHER right on the plan
    uint96 firstAmount; // charged at signup, base units, at most the plan's price; below it if firstInterval is 0
    uint32 firstInterval; // of the first period, in seconds, at most 366 days; 0: one regular period
    uint256 deadline; // unix seconds, inclusive
    bytes signature; // 65 bytes r || s || v, or whatever the signer's ERC-1271 wallet accepts
}

/// @notice An EIP-2612 permit for Turnpike as spender.
struct Permit {
    uint256 value; // base units
    uint256 deadline; // unix seconds, inclusive
    bytes signature; // 65 bytes r || s || v: the v,r,s form; any other length: the token's bytes form (ERC-1271)
}

/// @notice A subscriber's signature over one act; all zero in its own call.
struct Auth {
    uint16 version; // the record's current version; any other is refused
    uint256 deadline; // unix seconds, inclusive; 0: no signature is brought
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
    Terms terms; // with the present payTo
    bool deprecated;
    bool stopped; // its subscriptions end with the period that is paid
    bytes32 successor; // zero: none named
    address firstPayTo; // the payee at creation, which the planId proves
    address proposedPayTo; // zero: none
    uint40 effectiveAt; // unix seconds, inclusive: from when on anyone can apply the proposal
    address nextProvider; // who is offered the plan; zero: nobody
}

/// @notice A subscription as stored, with its status at the current block's time.
struct SubscriptionView {
    bytes32 idHash;
    address subscriber; // zero: unknown
    bytes32 planId;
    uint40 paidThrough; // unix seconds, exclusive end of the paid period
    uint16 version; // what the next signature must name
    bool paused;
    bool ending; // it ends with the paid period: cancelled so, or its plan is stopped
    bool cancelled;
    bool intro; // the paid period was begun with a voucher
    uint8 anchorDay; // the day of the month on which periods start; 0 on a plan in seconds
    uint40 until; // unix seconds, from which on nothing is charged but debits of the paid period; 0: no end
    bytes32 nextPlanId; // the plan of the next charged period; zero: the same
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
