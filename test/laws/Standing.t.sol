// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Status} from "../../contracts/interfaces/ITurnpike.sol";
import {Standing} from "../../contracts/libraries/Standing.sol";
import {PayeeWord, PlanWords, SubscriptionWord, SubscriptionWords} from "../../contracts/libraries/Words.sol";

/// @notice The rules of time against their table, near its boundaries and far from them.
contract StandingTest {
    using Standing for SubscriptionWord;

    struct Case {
        SubscriptionWord s;
        PayeeWord terms;
        uint256 p;
        uint256 g;
        uint256 i;
        uint256 t;
        bool paused;
        bool ending;
        bool cancelled;
    }

    /// @dev `t` is mostly a second or less from a boundary; the sums stay inside 40 bits, as block times do.
    function _case(uint256 seed) private pure returns (Case memory c) {
        c.i = 1 + _draw(seed, 1, _draw(seed, 2, 4) == 0 ? 3 : type(uint32).max);
        c.g = _draw(seed, 3, c.i);
        c.p = 1 + _draw(seed, 4, 2 ** 39);
        uint256 near = _draw(seed, 5, 5);
        c.t = c.p + _draw(seed, 6, 3) - 1;
        if (near == 1) c.t += c.g;
        else if (near == 2) c.t += c.i;
        else if (near == 3) c.t += _draw(seed, 7, 2 * c.i);
        else if (near == 4) c.t = _draw(seed, 8, 2 ** 39);
        uint256 flags = _draw(seed, 9, 16);
        (c.paused, c.ending, c.cancelled) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
        if (flags & 8 != 0) (c.paused, c.ending, c.cancelled) = (false, false, false);
        c.s = SubscriptionWords.pack(address(uint160(1 + _draw(seed, 10, 1e9))), uint40(c.p), 7);
        if (c.paused) c.s = c.s.asPaused();
        if (c.ending) c.s = c.s.asEnding();
        if (c.cancelled) c.s = c.s.asCancelled();
        c.terms = PlanWords.packPayee(address(0xbeef), uint32(c.i), uint32(c.g));
    }

    function _draw(uint256 seed, uint256 what, uint256 below) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(seed, what))) % below;
    }

    /// L19 The status is the first line of the table that matches.
    function testFuzz_status_is_the_first_match(uint256 seed) external pure {
        Case memory c = _case(seed);
        Status expected = Status.EXPIRED;
        if (c.t < c.p + c.i) expected = Status.PAST_DUE;
        if (c.t < c.p + c.g) expected = Status.ACTIVE;
        if (c.paused) expected = Status.PAUSED;
        if (c.ending && c.t >= c.p) expected = Status.CANCELLED;
        if (c.cancelled) expected = Status.CANCELLED;
        require(c.s.statusAt(c.terms, c.t) == expected, "status");
        require(c.s.isActive(c.terms, c.t) == (expected == Status.ACTIVE), "isActive");
    }

    function testFuzz_unknown_is_none_at_every_time(uint256 t) external pure {
        SubscriptionWord none = SubscriptionWord.wrap(0);
        require(none.statusAt(PayeeWord.wrap(0), t) == Status.NONE, "status");
        require(!none.isActive(PayeeWord.wrap(0), t), "isActive");
        require(none.renewedThrough(PayeeWord.wrap(0), t) == 0, "collectable");
    }

    /// L4 L6 Collectable is what is due and not expired, and the period that is bought ends where it should.
    function testFuzz_renewal_buys_the_next_period(uint256 seed) external pure {
        Case memory c = _case(seed);
        Status status = c.s.statusAt(c.terms, c.t);
        bool due = status == Status.PAST_DUE || (status == Status.ACTIVE && !c.ending && c.t >= c.p);
        uint256 end = c.s.renewedThrough(c.terms, c.t);
        require((end != 0) == due, "collectable");
        if (!due) return;
        require(end == (c.t < c.p + c.g ? c.p : c.t - c.g) + c.i, "the period's end");
        require(end > c.t && end > c.p, "a period that is past");
        require(end <= c.t + c.i, "a period that starts in the future");
    }

    /// A20 Renewed at whatever second inside grace, a hundred times in a row: no drift.
    function testFuzz_renewals_inside_grace_never_drift(uint256 seed) external pure {
        Case memory c = _case(seed);
        if (c.g == 0) return;
        SubscriptionWord s = SubscriptionWords.pack(address(1), uint40(c.p), 1);
        uint256 paidThrough = c.p;
        for (uint256 n = 0; n < 100; ++n) {
            paidThrough = s.renewedThrough(c.terms, paidThrough + _draw(seed, 100 + n, c.g));
            s = s.withPaidThrough(uint40(paidThrough));
            if (paidThrough + 2 * c.i > type(uint40).max) return;
            require(paidThrough == c.p + (n + 1) * c.i, "drift");
        }
    }

    /// L7 Credit is the unused share of the price, rounded down, and never above it.
    function testFuzz_credit_is_the_unused_share(uint96 amount, uint256 remaining, uint32 interval) external pure {
        if (interval == 0) return;
        remaining %= uint256(interval) + 1;
        uint256 credit = Standing.creditFor(amount, remaining, interval);
        require(credit <= amount, "above the price");
        uint256 share = uint256(amount) * remaining;
        require(credit * interval <= share, "rounded up");
        require((credit + 1) * interval > share, "rounded down by more than one");
    }
}
