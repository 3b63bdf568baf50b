// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

// The packed words of Turnpike's storage: what each bit means, and nothing else. Each record that a payment touches is
// one word, read and written whole: as plain structs, the same fields cost about 900 gas more per renewal.
//
// Every function that puts a value into a word takes it in a type that is no wider than its field, so that no field
// can spill into its neighbour.

// subscriber160 | paidThrough40 | planIndex32 | version16 | flags8, from the lowest bit up. Zero: no such record.
type SubscriptionWord is uint256;

// cap88 | spent88 | cycle40 | debits40, from the lowest bit up. Zero: no allowance was ever made.
type AllowanceWord is uint256;

// token160 | amount96, from the lowest bit up.
type PriceWord is uint256;

// payTo160 | interval32 | grace32 | flags8, from the lowest bit up; the upper 24 bits are unused.
type PayeeWord is uint256;

// provider160 | successorIndex32, from the lowest bit up; the upper 64 bits are unused. Successor 0: none named.
type OwnerWord is uint256;

using SubscriptionWords for SubscriptionWord global;
using AllowanceWords for AllowanceWord global;
using PlanWords for PriceWord global;
using PlanWords for PayeeWord global;
using PlanWords for OwnerWord global;

library SubscriptionWords {
    uint256 private constant PAUSED = 1 << 248;
    uint256 private constant ENDING = 1 << 249;
    uint256 private constant CANCELLED = 1 << 250;
    uint256 private constant PAID_THROUGH_MASK = uint256(type(uint40).max) << 160;
    uint256 private constant TERM_MASK = (uint256(type(uint40).max) << 160) | (uint256(type(uint32).max) << 200);
    uint256 private constant ONE_VERSION = 1 << 232;

    /// @dev A new record: version 0, no flag.
    function pack(
        address subscriber_,
        uint40 paidThrough_,
        uint32 planIndex_
    ) internal pure returns (SubscriptionWord) {
        return
            SubscriptionWord.wrap(
                uint256(uint160(subscriber_)) | (uint256(paidThrough_) << 160) | (uint256(planIndex_) << 200)
            );
    }

    function exists(SubscriptionWord s) internal pure returns (bool) {
        return SubscriptionWord.unwrap(s) != 0;
    }

    function subscriber(SubscriptionWord s) internal pure returns (address) {
        return address(uint160(SubscriptionWord.unwrap(s)));
    }

    function paidThrough(SubscriptionWord s) internal pure returns (uint40) {
        return uint40(SubscriptionWord.unwrap(s) >> 160);
    }

    function planIndex(SubscriptionWord s) internal pure returns (uint32) {
        return uint32(SubscriptionWord.unwrap(s) >> 200);
    }

    function version(SubscriptionWord s) internal pure returns (uint16) {
        return uint16(SubscriptionWord.unwrap(s) >> 232);
    }

    /// @dev Neither paused nor ending nor cancelled.
    function isUnflagged(SubscriptionWord s) internal pure returns (bool) {
        return SubscriptionWord.unwrap(s) >> 248 == 0;
    }

    function isPaused(SubscriptionWord s) internal pure returns (bool) {
        return SubscriptionWord.unwrap(s) & PAUSED != 0;
    }

    function isEnding(SubscriptionWord s) internal pure returns (bool) {
        return SubscriptionWord.unwrap(s) & ENDING != 0;
    }

    function isCancelled(SubscriptionWord s) internal pure returns (bool) {
        return SubscriptionWord.unwrap(s) & CANCELLED != 0;
    }

    function withPaidThrough(SubscriptionWord s, uint40 paidThrough_) internal pure returns (SubscriptionWord) {
        return
            SubscriptionWord.wrap((SubscriptionWord.unwrap(s) & ~PAID_THROUGH_MASK) | (uint256(paidThrough_) << 160));
    }

    function withPlan(
        SubscriptionWord s,
        uint32 planIndex_,
        uint40 paidThrough_
    ) internal pure returns (SubscriptionWord) {
        return
            SubscriptionWord.wrap(
                (SubscriptionWord.unwrap(s) & ~TERM_MASK) |
                    (uint256(paidThrough_) << 160) |
                    (uint256(planIndex_) << 200)
            );
    }

    /// @dev The caller has seen that the version is below its maximum: there is no carry into the flags.
    function withNextVersion(SubscriptionWord s) internal pure returns (SubscriptionWord) {
        unchecked {
            return SubscriptionWord.wrap(SubscriptionWord.unwrap(s) + ONE_VERSION);
        }
    }

    /// @dev The record as a rekey carries it on: the same, but for a version that starts afresh.
    function withVersionZero(SubscriptionWord s) internal pure returns (SubscriptionWord) {
        return SubscriptionWord.wrap(SubscriptionWord.unwrap(s) & ~(uint256(type(uint16).max) << 232));
    }

    function asPaused(SubscriptionWord s) internal pure returns (SubscriptionWord) {
        return SubscriptionWord.wrap(SubscriptionWord.unwrap(s) | PAUSED);
    }

    function asUnpaused(SubscriptionWord s) internal pure returns (SubscriptionWord) {
        return SubscriptionWord.wrap(SubscriptionWord.unwrap(s) & ~PAUSED);
    }

    function asEnding(SubscriptionWord s) internal pure returns (SubscriptionWord) {
        return SubscriptionWord.wrap(SubscriptionWord.unwrap(s) | ENDING);
    }

    function asCancelled(SubscriptionWord s) internal pure returns (SubscriptionWord) {
        return SubscriptionWord.wrap(SubscriptionWord.unwrap(s) | CANCELLED);
    }
}

library AllowanceWords {
    uint256 private constant CAP_MASK = type(uint88).max;
    uint256 private constant DEBITS_MASK = uint256(type(uint40).max) << 216;
    uint256 private constant ONE_DEBIT = 1 << 216;

    function exists(AllowanceWord a) internal pure returns (bool) {
        return AllowanceWord.unwrap(a) != 0;
    }

    function cap(AllowanceWord a) internal pure returns (uint88) {
        return uint88(AllowanceWord.unwrap(a));
    }

    function cycle(AllowanceWord a) internal pure returns (uint40) {
        return uint40(AllowanceWord.unwrap(a) >> 176);
    }

    function debits(AllowanceWord a) internal pure returns (uint40) {
        return uint40(AllowanceWord.unwrap(a) >> 216);
    }

    function spent(AllowanceWord a) internal pure returns (uint88) {
        return uint88(AllowanceWord.unwrap(a) >> 88);
    }

    /// @dev As it stands in the cycle that ends at `paidThrough`: nothing is spent when the stored figure belongs to an
    /// earlier one. So a renewal resets it without writing here.
    function inCycle(AllowanceWord a, uint40 paidThrough) internal pure returns (AllowanceWord) {
        return cycle(a) == paidThrough ? a : restarted(a, cap(a), paidThrough);
    }

    /// @dev A cap that was lowered below what is spent leaves nothing.
    function remaining(AllowanceWord a) internal pure returns (uint256) {
        (uint256 cap_, uint256 spent_) = (cap(a), spent(a));
        unchecked {
            return spent_ < cap_ ? cap_ - spent_ : 0;
        }
    }

    function withCap(AllowanceWord a, uint88 cap_) internal pure returns (AllowanceWord) {
        return AllowanceWord.wrap((AllowanceWord.unwrap(a) & ~CAP_MASK) | cap_);
    }

    /// @dev A new cap with nothing spent in the cycle that ends at `paidThrough`; the count of debits goes on.
    function restarted(AllowanceWord a, uint88 cap_, uint40 paidThrough) internal pure returns (AllowanceWord) {
        return AllowanceWord.wrap((AllowanceWord.unwrap(a) & DEBITS_MASK) | cap_ | (uint256(paidThrough) << 176));
    }

    /// @dev One more debit of `amount`, which the caller has seen to be within `remaining`: the sum stays within the
    /// cap and so within its field. The count cannot overflow: 2^40 debits do not fit into any chain's lifetime.
    function debited(AllowanceWord a, uint256 amount) internal pure returns (AllowanceWord) {
        unchecked {
            return AllowanceWord.wrap(AllowanceWord.unwrap(a) + (amount << 88) + ONE_DEBIT);
        }
    }
}

library PlanWords {
    uint256 private constant DEPRECATED = 1 << 224;

    function packPrice(address token_, uint96 amount_) internal pure returns (PriceWord) {
        return PriceWord.wrap(uint256(uint160(token_)) | (uint256(amount_) << 160));
    }

    function token(PriceWord w) internal pure returns (address) {
        return address(uint160(PriceWord.unwrap(w)));
    }

    function amount(PriceWord w) internal pure returns (uint96) {
        return uint96(PriceWord.unwrap(w) >> 160);
    }

    function packPayee(address payTo_, uint32 interval_, uint32 grace_) internal pure returns (PayeeWord) {
        return PayeeWord.wrap(uint256(uint160(payTo_)) | (uint256(interval_) << 160) | (uint256(grace_) << 192));
    }

    function payTo(PayeeWord w) internal pure returns (address) {
        return address(uint160(PayeeWord.unwrap(w)));
    }

    function interval(PayeeWord w) internal pure returns (uint32) {
        return uint32(PayeeWord.unwrap(w) >> 160);
    }

    function grace(PayeeWord w) internal pure returns (uint32) {
        return uint32(PayeeWord.unwrap(w) >> 192);
    }

    function isDeprecated(PayeeWord w) internal pure returns (bool) {
        return PayeeWord.unwrap(w) & DEPRECATED != 0;
    }

    function asDeprecated(PayeeWord w) internal pure returns (PayeeWord) {
        return PayeeWord.wrap(PayeeWord.unwrap(w) | DEPRECATED);
    }

    function packOwner(address provider_, uint32 successorIndex_) internal pure returns (OwnerWord) {
        return OwnerWord.wrap(uint256(uint160(provider_)) | (uint256(successorIndex_) << 160));
    }

    function provider(OwnerWord w) internal pure returns (address) {
        return address(uint160(OwnerWord.unwrap(w)));
    }

    function successorIndex(OwnerWord w) internal pure returns (uint32) {
        return uint32(OwnerWord.unwrap(w) >> 160);
    }
}
