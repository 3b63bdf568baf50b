// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike} from "../../contracts/interfaces/ITurnpike.sol";
import {
    AllowanceWord,
    AllowanceWords,
    NextWord,
    NextWords,
    OwnerWord,
    PayeeWord,
    PlanWords,
    PriceWord,
    ProposalWord,
    SubscriptionWord,
    SubscriptionWords
} from "../../contracts/libraries/Words.sol";

/// @notice Packs times that may not fit, each in a call of its own that can fail.
contract Packer {
    function pack(uint256 time, uint256 anchor) external pure returns (SubscriptionWord) {
        return SubscriptionWords.pack(address(type(uint160).max), time, type(uint32).max, anchor);
    }

    function withPaidThrough(SubscriptionWord s, uint256 time) external pure returns (SubscriptionWord) {
        return s.withPaidThrough(time);
    }

    function withPeriod(
        SubscriptionWord s,
        uint32 plan,
        uint256 time,
        uint256 anchor
    ) external pure returns (SubscriptionWord) {
        return s.withPeriod(plan, time, anchor);
    }
}

/// @notice L20 No field of a packed word spills into its neighbour: what is written comes back, and the rest stays.
contract WordsTest {
    uint256 private constant LAST_TIME = 2 ** 36 - 1; // in the year 4147
    Packer private _packer = new Packer();

    struct Subscription {
        address subscriber;
        uint40 paidThrough;
        uint32 planIndex;
        uint16 version;
        uint256 anchorDay;
        bool intro;
        bool next;
        bool limited;
        bool paused;
        bool ending;
        bool cancelled;
    }

    function _fields(SubscriptionWord s) private pure returns (Subscription memory f) {
        f.subscriber = s.subscriber();
        f.paidThrough = s.paidThrough();
        f.planIndex = s.planIndex();
        f.version = s.version();
        f.anchorDay = s.anchorDay();
        (f.intro, f.next, f.limited) = (s.isIntro(), s.hasNext(), s.isLimited());
        (f.paused, f.ending, f.cancelled) = (s.isPaused(), s.isEnding(), s.isCancelled());
    }

    function _same(SubscriptionWord s, Subscription memory f) private pure {
        require(keccak256(abi.encode(_fields(s))) == keccak256(abi.encode(f)), "a field changed");
        bool unbounded = !(f.limited || f.paused || f.ending || f.cancelled);
        require(s.isUnbounded() == unbounded, "isUnbounded");
        require(s.isPlain() == (unbounded && !f.intro && !f.next && f.anchorDay == 0), "isPlain");
        require(s.exists(), "exists");
    }

    /// @dev Any word with its unused bit clear, and a subscriber, is a subscription that could be.
    function testFuzz_subscription_fields_are_apart(
        uint256 raw,
        uint256 time,
        uint32 planIndex,
        uint256 anchor
    ) external pure {
        SubscriptionWord s = SubscriptionWord.wrap((raw & ~(uint256(1) << 251)) | 1);
        Subscription memory f = _fields(s);
        _same(s, f);
        time %= LAST_TIME + 1;
        f.paidThrough = uint40(time);
        s = s.withPaidThrough(time);
        _same(s, f);
        (f.planIndex, f.paidThrough, f.anchorDay) = (planIndex, uint40(time >> 1), anchor % 32);
        (f.intro, f.next) = (false, false);
        s = s.withPeriod(planIndex, time >> 1, anchor % 32);
        _same(s, f);
        if (f.version != type(uint16).max) {
            f.version += 1;
            s = s.withNextVersion();
            _same(s, f);
        }
        _flags(s, f);
        f.version = 0;
        _same(s.withVersionZero(), f);
    }

    function _flags(SubscriptionWord s, Subscription memory f) private pure {
        Subscription memory g = abi.decode(abi.encode(f), (Subscription));
        g.paused = true;
        _same(s.asPaused(), g);
        g.paused = false;
        _same(s.asUnpaused(), g);
        g = abi.decode(abi.encode(f), (Subscription));
        g.intro = true;
        _same(s.asIntro(), g);
        for (uint256 i = 0; i < 4; ++i) {
            g = abi.decode(abi.encode(f), (Subscription));
            (g.limited, g.next) = (i & 1 != 0, i & 2 != 0);
            SubscriptionWord t = s.withNext(g.limited, g.next);
            _same(t, g);
            // What has ended has no period to change.
            (g.ending, g.next) = (true, false);
            _same(t.asEnding(), g);
            (g.ending, g.cancelled) = (f.ending, true);
            _same(t.asCancelled(), g);
        }
    }

    function testFuzz_a_new_subscription_has_its_fields(
        address who,
        uint256 time,
        uint32 plan,
        uint256 anchor
    ) external pure {
        if (who == address(0)) return;
        (time, anchor) = (time % (LAST_TIME + 1), anchor % 32);
        Subscription memory f;
        (f.subscriber, f.paidThrough, f.planIndex, f.anchorDay) = (who, uint40(time), plan, anchor);
        _same(SubscriptionWords.pack(who, time, plan, anchor), f);
        Subscription memory voided;
        (voided.subscriber, voided.cancelled) = (who, true);
        _same(SubscriptionWords.tombstone(who), voided);
    }

    /// A time of more than 36 bits is refused wherever one is packed; the last one that fits is not.
    function testFuzz_a_larger_time_is_refused_and_never_spills(
        uint256 raw,
        uint256 time,
        uint256 shift
    ) external view {
        time = _mostlyClose(time, shift);
        SubscriptionWord s = SubscriptionWord.wrap((raw & ~(uint256(1) << 251)) | 1);
        _holdTime(time, abi.encodeCall(Packer.pack, (time, 31)));
        _holdTime(time, abi.encodeCall(Packer.withPaidThrough, (s, time)));
        _holdTime(time, abi.encodeCall(Packer.withPeriod, (s, s.planIndex(), time, s.anchorDay())));
    }

    function _mostlyClose(uint256 time, uint256 shift) private pure returns (uint256) {
        shift %= 4;
        if (shift == 0) return LAST_TIME + (time % 3);
        if (shift == 1) return time % (1 << 40);
        return shift == 2 ? time : uint256(1) << (time % 256);
    }

    function _holdTime(uint256 time, bytes memory data) private view {
        (bool ok, bytes memory answer) = address(_packer).staticcall(data);
        require(ok == (time <= LAST_TIME), "a time was refused or taken wrongly");
        if (ok) {
            SubscriptionWord s = abi.decode(answer, (SubscriptionWord));
            require(s.paidThrough() == time, "another time");
        } else {
            bytes memory refusal = abi.encodeWithSelector(ITurnpike.PaidThroughTooLarge.selector, time, LAST_TIME);
            require(keccak256(answer) == keccak256(refusal), "another error");
        }
    }

    function testFuzz_next_fields_are_apart(uint40 until, uint32 nextPlanIndex) external pure {
        NextWord w = NextWords.pack(until, nextPlanIndex);
        require(w.until() == until && w.nextPlanIndex() == nextPlanIndex, "next");
    }

    struct Allowance {
        uint88 cap;
        uint88 spent;
        uint40 cycle;
        uint40 debits;
    }

    function _same(AllowanceWord a, Allowance memory expected) private pure {
        Allowance memory actual = Allowance(a.cap(), a.spent(), a.cycle(), a.debits());
        require(keccak256(abi.encode(actual)) == keccak256(abi.encode(expected)), "a field changed");
    }

    function testFuzz_allowance_fields_are_apart(uint256 raw, uint88 cap, uint40 cycle, uint256 amount) external pure {
        AllowanceWord a = AllowanceWord.wrap(raw);
        Allowance memory f = Allowance(a.cap(), a.spent(), a.cycle(), a.debits());
        require(a.exists() == (raw != 0), "exists");
        f.cap = cap;
        _same(a.withCap(cap), f);
        _same(a.restarted(cap, cycle), Allowance(cap, 0, cycle, f.debits));
        require(a.remaining() == (a.spent() < a.cap() ? a.cap() - a.spent() : 0), "remaining");

        AllowanceWord now_ = a.inCycle(cycle);
        f = Allowance(a.cap(), a.cycle() == cycle ? a.spent() : 0, cycle, f.debits);
        _same(now_, f);
        // One debit of no more than what remains.
        if (f.debits == type(uint40).max || now_.remaining() == 0) return;
        amount = 1 + (amount % now_.remaining());
        (f.spent, f.debits) = (uint88(f.spent + amount), f.debits + 1);
        _same(now_.debited(amount), f);
    }

    function testFuzz_plan_fields_are_apart(
        address token,
        uint96 amount,
        address payTo,
        uint32 interval,
        bool months,
        uint32 grace,
        address provider,
        uint32 successor
    ) external pure {
        PriceWord price = PlanWords.packPrice(token, amount);
        require(price.token() == token && price.amount() == amount, "price");
        PayeeWord payee = PlanWords.packPayee(payTo, interval, months, grace);
        require(!payee.isDeprecated() && payee.asDeprecated().isDeprecated(), "deprecated");
        require(!payee.isStopped() && !payee.asDeprecated().isStopped(), "stopped by itself");
        for (uint256 i = 0; i < 2; ++i) {
            require(payee.payTo() == payTo && payee.interval() == interval && payee.grace() == grace, "payee");
            require(payee.isMonthly() == months, "months");
            payee = payee.asDeprecated();
        }
        payee = payee.withPayTo(provider);
        require(payee.payTo() == provider && payee.isDeprecated() && payee.isMonthly() == months, "moved payee");
        require(payee.interval() == interval && payee.grace() == grace, "terms of a moved payee");
        ProposalWord proposal = PlanWords.packProposal(payTo, uint40(amount), months);
        require(proposal.payTo() == payTo && proposal.effectiveAt() == uint40(amount), "proposal");
        require(proposal.isByPayee() == months, "who proposed");
        payee = payee.asStopped();
        require(payee.isStopped() && payee.isDeprecated() && payee.payTo() == provider, "stopped");
        require(payee.interval() == interval && payee.grace() == grace && payee.isMonthly() == months, "its terms");
        OwnerWord owner = PlanWords.packOwner(provider, successor);
        require(owner.provider() == provider && owner.successorIndex() == successor, "owner");
    }
}
