// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {
    AllowanceWord,
    AllowanceWords,
    NextWords,
    OwnerWord,
    PayeeWord,
    PlanWords,
    PriceWord,
    ProposalWord,
    StartWord,
    StartWords,
    SubscriptionWord,
    SubscriptionWords
} from "../../contracts/libraries/Words.sol";

/// @notice Packing: each setter sets its own field, and leaves every other bit of the word as it was.
contract WordsLemmas {
    uint256 private constant TIME = (2 ** 36 - 1) << 160;
    uint256 private constant PLAN = uint256(type(uint32).max) << 196;
    uint256 private constant VERSION = uint256(type(uint16).max) << 228;
    uint256 private constant ANCHOR = 31 << 244;
    uint256 private constant INTRO = 1 << 249;
    uint256 private constant NEXT = 1 << 250;
    uint256 private constant LIMITED = 1 << 252;

    function _kept(SubscriptionWord a, SubscriptionWord b, uint256 changed) private pure {
        assert(SubscriptionWord.unwrap(a) & ~changed == SubscriptionWord.unwrap(b) & ~changed);
    }

    function lemmaPack(address subscriber, uint256 time, uint32 plan, uint256 anchor) external pure {
        require(anchor < 32);
        SubscriptionWord s = SubscriptionWords.pack(subscriber, time, plan, anchor);
        assert(time < 2 ** 36);
        assert(s.subscriber() == subscriber && s.paidThrough() == time && s.planIndex() == plan);
        assert(s.anchorDay() == anchor && s.version() == 0 && s.isUnbounded() && !s.isIntro() && !s.hasNext());
        assert(s.isPlain() == (anchor == 0));
        assert(!s.isLimited() && !s.isPaused() && !s.isEnding() && !s.isCancelled());
    }

    function lemmaTombstone(address subscriber) external pure {
        SubscriptionWord s = SubscriptionWords.tombstone(subscriber);
        assert(s.exists() && s.isCancelled() && s.subscriber() == subscriber);
    }

    function lemmaPaidThrough(SubscriptionWord s, uint256 time) external pure {
        SubscriptionWord b = s.withPaidThrough(time);
        assert(time < 2 ** 36 && b.paidThrough() == time);
        _kept(s, b, TIME);
    }

    function lemmaPeriod(SubscriptionWord s, uint32 plan, uint256 time, uint256 anchor) external pure {
        require(anchor < 32);
        SubscriptionWord b = s.withPeriod(plan, time, anchor);
        assert(time < 2 ** 36 && b.paidThrough() == time && b.planIndex() == plan && b.anchorDay() == anchor);
        assert(!b.isIntro() && !b.hasNext());
        _kept(s, b, TIME | PLAN | ANCHOR | INTRO | NEXT);
    }

    function lemmaVersion(SubscriptionWord s) external pure {
        require(s.version() < type(uint16).max);
        SubscriptionWord b = s.withNextVersion();
        assert(b.version() == s.version() + 1);
        _kept(s, b, VERSION);
        b = s.withVersionZero();
        assert(b.version() == 0);
        _kept(s, b, VERSION);
    }

    function lemmaFlags(SubscriptionWord s) external pure {
        assert(s.asIntro().isIntro() && s.asPaused().isPaused() && !s.asUnpaused().isPaused());
        _kept(s, s.asIntro(), INTRO);
        _kept(s, s.asPaused(), 1 << 253);
        _kept(s, s.asUnpaused(), 1 << 253);
        assert(s.asEnding().isEnding() && !s.asEnding().hasNext());
        _kept(s, s.asEnding(), (1 << 254) | NEXT);
        assert(s.asCancelled().isCancelled() && !s.asCancelled().hasNext());
        _kept(s, s.asCancelled(), (1 << 255) | NEXT);
    }

    function lemmaNextFlags(SubscriptionWord s, bool limited, bool next) external pure {
        SubscriptionWord b = s.withNext(limited, next);
        assert(b.isLimited() == limited && b.hasNext() == next);
        _kept(s, b, LIMITED | NEXT);
    }

    function lemmaNext(uint40 until, uint32 plan) external pure {
        assert(NextWords.pack(until, plan).until() == until && NextWords.pack(until, plan).nextPlanIndex() == plan);
    }

    function lemmaCap(AllowanceWord a, uint88 cap) external pure {
        AllowanceWord b = a.withCap(cap);
        assert(b.cap() == cap && b.spent() == a.spent() && b.cycle() == a.cycle() && b.debits() == a.debits());
    }

    function lemmaCycle(AllowanceWord a, uint40 paidThrough) external pure {
        AllowanceWord b = a.inCycle(paidThrough);
        assert(b.cap() == a.cap() && b.cycle() == paidThrough && b.debits() == a.debits());
        assert(b.spent() == (a.cycle() == paidThrough ? a.spent() : 0));
    }

    function lemmaRestart(AllowanceWord a, uint88 cap, uint40 paidThrough) external pure {
        AllowanceWord b = a.restarted(cap, paidThrough);
        assert(b.cap() == cap && b.spent() == 0 && b.cycle() == paidThrough && b.debits() == a.debits());
    }

    function lemmaDebit(AllowanceWord a, uint256 amount) external pure {
        require(amount <= a.remaining() && a.debits() < type(uint40).max);
        AllowanceWord b = a.debited(amount);
        assert(b.cap() == a.cap() && b.cycle() == a.cycle() && b.debits() == a.debits() + 1);
        assert(b.spent() == a.spent() + amount && (amount == 0 || b.spent() <= b.cap()));
    }

    function lemmaPrice(address token, uint96 amount) external pure {
        PriceWord w = PlanWords.packPrice(token, amount);
        assert(w.token() == token && w.amount() == amount);
        StartWord start = StartWords.regular(w);
        assert(start.firstAmount() == amount && start.firstInterval() == 0 && start.until() == 0 && !start.isIntro());
    }

    function lemmaPayee(address payTo, uint32 interval, bool months, uint32 grace, address moved) external pure {
        PayeeWord w = PlanWords.packPayee(payTo, interval, months, grace);
        assert(w.payTo() == payTo && !w.isDeprecated() && !w.isStopped());
        w = w.asDeprecated().withPayTo(moved);
        assert(w.payTo() == moved && w.isDeprecated() && !w.isStopped());
        assert(w.interval() == interval && w.grace() == grace && w.isMonthly() == months);
        w = w.asStopped().withPayTo(payTo);
        assert(w.payTo() == payTo && w.isDeprecated() && w.isStopped());
        assert(w.interval() == interval && w.grace() == grace && w.isMonthly() == months);
    }

    function lemmaOwner(
        address provider,
        uint32 successor,
        address payTo,
        uint40 effectiveAt,
        bool byPayee
    ) external pure {
        OwnerWord w = PlanWords.packOwner(provider, successor);
        assert(w.provider() == provider && w.successorIndex() == successor);
        ProposalWord p = PlanWords.packProposal(payTo, effectiveAt, byPayee);
        assert(p.payTo() == payTo && p.effectiveAt() == effectiveAt && p.isByPayee() == byPayee);
    }

    function lemmaStart(uint96 amount, uint32 interval, uint40 until) external pure {
        StartWord w = StartWords.introductory(amount, interval).withUntil(until);
        assert(w.firstAmount() == amount && w.firstInterval() == interval && w.until() == until && w.isIntro());
    }
}
