// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike} from "../interfaces/ITurnpike.sol";

// The packed words of Turnpike's storage: what each bit means, and nothing else. Each record that a payment touches is
// one word, read and written whole: as plain structs, the same fields cost about 900 gas more per renewal.
//
// Every function that puts a value into a word takes it in a type that is no wider than its field, or refuses what
// does not fit, so that no field can spill into its neighbour.

// subscriber160 | paidThrough36 | planIndex32 | version16 | anchorDay5 | flags7, from the lowest bit up. Zero: no such
// record. Flags from bit 249 up: INTRO, NEXT, one unused, LIMITED, PAUSED, ENDING, CANCELLED.
type SubscriptionWord is uint256;

// until40 | nextPlanIndex32, from the lowest bit up. Each half counts only while its flag is set: LIMITED, NEXT.
type NextWord is uint256;

// cap88 | spent88 | cycle40 | debits40, from the lowest bit up. Zero: no allowance was ever made.
type AllowanceWord is uint256;

// token160 | amount96, from the lowest bit up.
type PriceWord is uint256;

// payTo160 | interval32 | grace32 | DEPRECATED1 | MONTHS1 | STOPPED1, from the lowest bit up; the upper 29 bits are
// unused.
type PayeeWord is uint256;

// provider160 | successorIndex32, from the lowest bit up; the upper 64 bits are unused. Successor 0: none named.
type OwnerWord is uint256;

// payTo160 | effectiveAt40 | BY_PAYEE1, from the lowest bit up. Zero: no payee is proposed.
type ProposalWord is uint256;

// firstAmount96 | firstInterval32 | until40 | INTRO1, from the lowest bit up: how a subscription starts, and when it
// ends. Never stored. The interval in seconds, 0: one regular period. Until 0: no end.
type StartWord is uint256;

using SubscriptionWords for SubscriptionWord global;
using NextWords for NextWord global;
using AllowanceWords for AllowanceWord global;
using PlanWords for PriceWord global;
using PlanWords for PayeeWord global;
using PlanWords for OwnerWord global;
using PlanWords for ProposalWord global;
using StartWords for StartWord global;

library SubscriptionWords {
    /// @dev The year 4147. No Solidity type is 36 bits wide: a larger time would spill into the plan's index.
    uint256 internal constant MAX_TIME = 2 ** 36 - 1;

    uint256 private constant INTRO = 1 << 249;
    uint256 private constant NEXT = 1 << 250;
    uint256 private constant LIMITED = 1 << 252;
    uint256 private constant PAUSED = 1 << 253;
    uint256 private constant ENDING = 1 << 254;
    uint256 private constant CANCELLED = 1 << 255;
    uint256 private constant TIME_MASK = MAX_TIME << 160;
    uint256 private constant PLAN_MASK = uint256(type(uint32).max) << 196;
    uint256 private constant VERSION_MASK = uint256(type(uint16).max) << 228;
    uint256 private constant ANCHOR_MASK = 31 << 244;
    uint256 private constant ONE_VERSION = 1 << 228;

    /// @dev A new record: version 0, no flag. `anchorDay_` is at most 31.
    function pack(
        address subscriber_,
        uint256 paidThrough_,
        uint32 planIndex_,
        uint256 anchorDay_
    ) internal pure returns (SubscriptionWord) {
        _requireTime(paidThrough_);
        return
            SubscriptionWord.wrap(
                uint256(uint160(subscriber_)) |
                    (paidThrough_ << 160) |
                    (uint256(planIndex_) << 196) |
                    (anchorDay_ << 244)
            );
    }

    /// @dev What keeps an idHash from ever being used.
    function tombstone(address subscriber_) internal pure returns (SubscriptionWord) {
        return SubscriptionWord.wrap(uint256(uint160(subscriber_)) | CANCELLED);
    }

    function exists(SubscriptionWord s) internal pure returns (bool) {
        return SubscriptionWord.unwrap(s) != 0;
    }

    function subscriber(SubscriptionWord s) internal pure returns (address) {
        return address(uint160(SubscriptionWord.unwrap(s)));
    }

    function paidThrough(SubscriptionWord s) internal pure returns (uint40) {
        return uint40((SubscriptionWord.unwrap(s) >> 160) & MAX_TIME);
    }

    function planIndex(SubscriptionWord s) internal pure returns (uint32) {
        return uint32(SubscriptionWord.unwrap(s) >> 196);
    }

    function version(SubscriptionWord s) internal pure returns (uint16) {
        return uint16(SubscriptionWord.unwrap(s) >> 228);
    }

    /// @dev The day of the month on which periods start; 0 while they are counted in seconds.
    function anchorDay(SubscriptionWord s) internal pure returns (uint256) {
        return (SubscriptionWord.unwrap(s) >> 244) & 31;
    }

    /// @dev No flag and no anchor: a period in seconds follows another. The only test of a plain renewal.
    function isPlain(SubscriptionWord s) internal pure returns (bool) {
        return SubscriptionWord.unwrap(s) >> 244 == 0;
    }

    /// @dev Neither limited nor paused nor ending nor cancelled: time alone decides the status.
    function isUnbounded(SubscriptionWord s) internal pure returns (bool) {
        return SubscriptionWord.unwrap(s) >> 252 == 0;
    }

    function isIntro(SubscriptionWord s) internal pure returns (bool) {
        return SubscriptionWord.unwrap(s) & INTRO != 0;
    }

    function hasNext(SubscriptionWord s) internal pure returns (bool) {
        return SubscriptionWord.unwrap(s) & NEXT != 0;
    }

    function isLimited(SubscriptionWord s) internal pure returns (bool) {
        return SubscriptionWord.unwrap(s) & LIMITED != 0;
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

    /// @dev For a plain record, which has no other field of the period.
    function withPaidThrough(SubscriptionWord s, uint256 paidThrough_) internal pure returns (SubscriptionWord) {
        _requireTime(paidThrough_);
        return SubscriptionWord.wrap((SubscriptionWord.unwrap(s) & ~TIME_MASK) | (paidThrough_ << 160));
    }

    /// @dev A new period that was charged in full: the introduction is over, and a scheduled change applied or dropped.
    function withPeriod(
        SubscriptionWord s,
        uint32 planIndex_,
        uint256 paidThrough_,
        uint256 anchorDay_
    ) internal pure returns (SubscriptionWord) {
        _requireTime(paidThrough_);
        return
            SubscriptionWord.wrap(
                (SubscriptionWord.unwrap(s) & ~(TIME_MASK | PLAN_MASK | ANCHOR_MASK | INTRO | NEXT)) |
                    (paidThrough_ << 160) |
                    (uint256(planIndex_) << 196) |
                    (anchorDay_ << 244)
            );
    }

    /// @dev The caller has seen that the version is below its maximum: there is no carry into the anchor.
    function withNextVersion(SubscriptionWord s) internal pure returns (SubscriptionWord) {
        unchecked {
            return SubscriptionWord.wrap(SubscriptionWord.unwrap(s) + ONE_VERSION);
        }
    }

    /// @dev The record as a rekey carries it on: the same, but at version 0.
    function withVersionZero(SubscriptionWord s) internal pure returns (SubscriptionWord) {
        return SubscriptionWord.wrap(SubscriptionWord.unwrap(s) & ~VERSION_MASK);
    }

    function asIntro(SubscriptionWord s) internal pure returns (SubscriptionWord) {
        return SubscriptionWord.wrap(SubscriptionWord.unwrap(s) | INTRO);
    }

    /// @dev Whether the halves of its `NextWord` count.
    function withNext(SubscriptionWord s, bool limited, bool next) internal pure returns (SubscriptionWord) {
        return
            SubscriptionWord.wrap(
                (SubscriptionWord.unwrap(s) & ~(LIMITED | NEXT)) | (limited ? LIMITED : 0) | (next ? NEXT : 0)
            );
    }

    function asPaused(SubscriptionWord s) internal pure returns (SubscriptionWord) {
        return SubscriptionWord.wrap(SubscriptionWord.unwrap(s) | PAUSED);
    }

    function asUnpaused(SubscriptionWord s) internal pure returns (SubscriptionWord) {
        return SubscriptionWord.wrap(SubscriptionWord.unwrap(s) & ~PAUSED);
    }

    /// @dev A scheduled change is dropped: there will be no period to apply it to. So it is below.
    function asEnding(SubscriptionWord s) internal pure returns (SubscriptionWord) {
        return SubscriptionWord.wrap((SubscriptionWord.unwrap(s) & ~NEXT) | ENDING);
    }

    function asCancelled(SubscriptionWord s) internal pure returns (SubscriptionWord) {
        return SubscriptionWord.wrap((SubscriptionWord.unwrap(s) & ~NEXT) | CANCELLED);
    }

    function _requireTime(uint256 time) private pure {
        if (time > MAX_TIME) revert ITurnpike.PaidThroughTooLarge(time, MAX_TIME);
    }
}

library NextWords {
    function pack(uint40 until_, uint32 nextPlanIndex_) internal pure returns (NextWord) {
        return NextWord.wrap(uint256(until_) | (uint256(nextPlanIndex_) << 40));
    }

    function until(NextWord w) internal pure returns (uint40) {
        return uint40(NextWord.unwrap(w));
    }

    function nextPlanIndex(NextWord w) internal pure returns (uint32) {
        return uint32(NextWord.unwrap(w) >> 40);
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

    /// @dev Its value in the cycle that ends at `paidThrough`: nothing is spent when the stored figure belongs to an
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
    uint256 private constant MONTHS = 1 << 225;
    uint256 private constant STOPPED = 1 << 226;
    uint256 private constant BY_PAYEE = 1 << 200; // of a proposal

    function packPrice(address token_, uint96 amount_) internal pure returns (PriceWord) {
        return PriceWord.wrap(uint256(uint160(token_)) | (uint256(amount_) << 160));
    }

    function token(PriceWord w) internal pure returns (address) {
        return address(uint160(PriceWord.unwrap(w)));
    }

    function amount(PriceWord w) internal pure returns (uint96) {
        return uint96(PriceWord.unwrap(w) >> 160);
    }

    function packPayee(
        address payTo_,
        uint32 interval_,
        bool months_,
        uint32 grace_
    ) internal pure returns (PayeeWord) {
        return
            PayeeWord.wrap(
                uint256(uint160(payTo_)) |
                    (uint256(interval_) << 160) |
                    (uint256(grace_) << 192) |
                    (months_ ? MONTHS : 0)
            );
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

    /// @dev Whether the interval counts months and not seconds.
    function isMonthly(PayeeWord w) internal pure returns (bool) {
        return PayeeWord.unwrap(w) & MONTHS != 0;
    }

    function isDeprecated(PayeeWord w) internal pure returns (bool) {
        return PayeeWord.unwrap(w) & DEPRECATED != 0;
    }

    function asDeprecated(PayeeWord w) internal pure returns (PayeeWord) {
        return PayeeWord.wrap(PayeeWord.unwrap(w) | DEPRECATED);
    }

    function isStopped(PayeeWord w) internal pure returns (bool) {
        return PayeeWord.unwrap(w) & STOPPED != 0;
    }

    function asStopped(PayeeWord w) internal pure returns (PayeeWord) {
        return PayeeWord.wrap(PayeeWord.unwrap(w) | STOPPED | DEPRECATED);
    }

    function withPayTo(PayeeWord w, address payTo_) internal pure returns (PayeeWord) {
        return PayeeWord.wrap(((PayeeWord.unwrap(w) >> 160) << 160) | uint256(uint160(payTo_)));
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

    function packProposal(address payTo_, uint40 effectiveAt_, bool isByPayee_) internal pure returns (ProposalWord) {
        return
            ProposalWord.wrap(uint256(uint160(payTo_)) | (uint256(effectiveAt_) << 160) | (isByPayee_ ? BY_PAYEE : 0));
    }

    function payTo(ProposalWord w) internal pure returns (address) {
        return address(uint160(ProposalWord.unwrap(w)));
    }

    function effectiveAt(ProposalWord w) internal pure returns (uint40) {
        return uint40(ProposalWord.unwrap(w) >> 160);
    }

    /// @dev Whether the payee has proposed it and not the provider.
    function isByPayee(ProposalWord w) internal pure returns (bool) {
        return ProposalWord.unwrap(w) & BY_PAYEE != 0;
    }
}

library StartWords {
    uint256 private constant INTRO = 1 << 168;

    /// @dev One of the plan's periods at its price, and no end.
    function regular(PriceWord price) internal pure returns (StartWord) {
        return StartWord.wrap(price.amount());
    }

    function introductory(uint96 firstAmount_, uint32 firstInterval_) internal pure returns (StartWord) {
        return StartWord.wrap(uint256(firstAmount_) | (uint256(firstInterval_) << 96) | INTRO);
    }

    /// @dev For a word that has no end yet.
    function withUntil(StartWord w, uint40 until_) internal pure returns (StartWord) {
        return StartWord.wrap(StartWord.unwrap(w) | (uint256(until_) << 128));
    }

    function firstAmount(StartWord w) internal pure returns (uint96) {
        return uint96(StartWord.unwrap(w));
    }

    function firstInterval(StartWord w) internal pure returns (uint32) {
        return uint32(StartWord.unwrap(w) >> 96);
    }

    function until(StartWord w) internal pure returns (uint40) {
        return uint40(StartWord.unwrap(w) >> 128);
    }

    function isIntro(StartWord w) internal pure returns (bool) {
        return StartWord.unwrap(w) & INTRO != 0;
    }
}
