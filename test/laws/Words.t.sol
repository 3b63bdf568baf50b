// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {
    AllowanceWord,
    AllowanceWords,
    OwnerWord,
    PayeeWord,
    PlanWords,
    PriceWord,
    SubscriptionWord,
    SubscriptionWords
} from "../../contracts/libraries/Words.sol";

/// @notice L20 No field of a packed word spills into its neighbour: what is written comes back, and the rest stays.
contract WordsTest {
    struct Subscription {
        address subscriber;
        uint40 paidThrough;
        uint32 planIndex;
        uint16 version;
        bool paused;
        bool ending;
        bool cancelled;
    }

    function _fields(SubscriptionWord s) private pure returns (Subscription memory) {
        return
            Subscription({
                subscriber: s.subscriber(),
                paidThrough: s.paidThrough(),
                planIndex: s.planIndex(),
                version: s.version(),
                paused: s.isPaused(),
                ending: s.isEnding(),
                cancelled: s.isCancelled()
            });
    }

    function _same(SubscriptionWord s, Subscription memory expected) private pure {
        require(keccak256(abi.encode(_fields(s))) == keccak256(abi.encode(expected)), "a field changed");
        require(s.isUnflagged() == !(expected.paused || expected.ending || expected.cancelled), "isUnflagged");
    }

    /// @dev Any word with its five unused bits clear is a subscription that could be.
    function testFuzz_subscription_fields_are_apart(uint256 raw, uint40 paidThrough, uint32 planIndex) external pure {
        SubscriptionWord s = SubscriptionWord.wrap(raw & (type(uint256).max >> 5));
        Subscription memory f = _fields(s);
        _same(s, f);
        f.paidThrough = paidThrough;
        s = s.withPaidThrough(paidThrough);
        _same(s, f);
        (f.planIndex, f.paidThrough) = (planIndex, uint40(uint256(paidThrough) >> 1));
        s = s.withPlan(planIndex, uint40(uint256(paidThrough) >> 1));
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
        (bool paused, bool ending, bool cancelled) = (f.paused, f.ending, f.cancelled);
        f.paused = true;
        _same(s.asPaused(), f);
        f.paused = false;
        _same(s.asUnpaused(), f);
        (f.paused, f.ending) = (paused, true);
        _same(s.asEnding(), f);
        (f.ending, f.cancelled) = (ending, true);
        _same(s.asCancelled(), f);
        f.cancelled = cancelled;
    }

    function testFuzz_a_new_subscription_has_its_fields(address who, uint40 paidThrough, uint32 plan) external pure {
        SubscriptionWord s = SubscriptionWords.pack(who, paidThrough, plan);
        _same(s, Subscription(who, paidThrough, plan, 0, false, false, false));
        require(s.exists() == (who != address(0) || paidThrough != 0 || plan != 0), "exists");
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
        uint32 grace,
        address provider,
        uint32 successor
    ) external pure {
        PriceWord price = PlanWords.packPrice(token, amount);
        require(price.token() == token && price.amount() == amount, "price");
        PayeeWord payee = PlanWords.packPayee(payTo, interval, grace);
        require(!payee.isDeprecated() && payee.asDeprecated().isDeprecated(), "deprecated");
        for (uint256 i = 0; i < 2; ++i) {
            require(payee.payTo() == payTo && payee.interval() == interval && payee.grace() == grace, "payee");
            payee = payee.asDeprecated();
        }
        OwnerWord owner = PlanWords.packOwner(provider, successor);
        require(owner.provider() == provider && owner.successorIndex() == successor, "owner");
    }
}
