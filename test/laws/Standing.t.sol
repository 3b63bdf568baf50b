// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Status} from "../../contracts/interfaces/ITurnpike.sol";
import {Standing} from "../../contracts/libraries/Standing.sol";
import {PayeeWord, PlanWords, SubscriptionWord, SubscriptionWords} from "../../contracts/libraries/Words.sol";
import {Almanac} from "./Almanac.sol";

/// @notice The rules of time against their table, near its boundaries and far from them.
contract StandingTest {
    using Standing for SubscriptionWord;

    struct Case {
        SubscriptionWord s;
        PayeeWord terms;
        uint256 p;
        uint256 g;
        uint256 i;
        uint256 n; // the next boundary
        uint256 t;
        uint256 until;
        uint256 anchor;
        bool months;
        bool limited;
        bool paused;
        bool ending;
        bool cancelled;
        bool stopped;
    }

    /// @dev `t` is mostly a second or less from a boundary. Times end in the year 2514, and so do most in the contract.
    function _case(uint256 seed) private pure returns (Case memory c) {
        c.months = _draw(seed, 11, 2) == 0;
        c.p = 1 + 1_709_000_000 + _draw(seed, 4, 2 ** 34 - 1_709_000_000);
        if (c.months) _months(seed, c);
        else c.i = 1 + _draw(seed, 1, _draw(seed, 2, 4) == 0 ? 3 : type(uint32).max);
        c.n = c.months ? Almanac.later(c.p, c.i, c.anchor) : c.p + c.i;
        c.g = _draw(seed, 3, c.months ? c.i * 28 days : c.i) % type(uint32).max;
        c.t = _time(seed, c);
        uint256 flags = _draw(seed, 9, 16);
        (c.paused, c.ending, c.cancelled) = (flags & 1 != 0, flags & 2 != 0, flags & 4 != 0);
        if (flags & 8 != 0) (c.paused, c.ending, c.cancelled) = (false, false, false);
        c.limited = _draw(seed, 12, 2) == 0;
        c.until = c.t + _draw(seed, 13, 3) - 1;
        if (_draw(seed, 14, 2) == 0) c.until = c.p + _draw(seed, 15, 3) - 1;
        c.s = SubscriptionWords.pack(address(uint160(1 + _draw(seed, 10, 1e9))), c.p, 7, c.anchor);
        if (c.paused) c.s = c.s.asPaused();
        if (c.limited) c.s = c.s.withNext(true, false);
        if (c.ending) c.s = c.s.asEnding();
        if (c.cancelled) c.s = c.s.asCancelled();
        c.terms = PlanWords.packPayee(address(0xbeef), uint32(c.i), c.months, uint32(c.g));
        c.stopped = _draw(seed, 18, 4) == 0;
        if (c.stopped) c.terms = c.terms.asStopped();
    }

    /// @dev paidThrough is a boundary: on its anchor's day, or on the last of a shorter month. Half are near a month's
    /// end.
    function _months(uint256 seed, Case memory c) private pure {
        c.i = 1 + _draw(seed, 1, _draw(seed, 2, 4) == 0 ? 1_200 : 12);
        (uint256 month, ) = Almanac.dateOf(c.p / 1 days);
        if (c.i > month) c.i = 12; // the period began before 1970
        c.anchor = _draw(seed, 16, 2) == 0 ? 28 + _draw(seed, 17, 4) : 1 + _draw(seed, 17, 31);
        c.p = Almanac.dayOf(month, c.anchor) * 1 days + (c.p % 1 days);
    }

    function _time(uint256 seed, Case memory c) private pure returns (uint256 t) {
        uint256 near = _draw(seed, 5, 5);
        t = c.p + _draw(seed, 6, 3) - 1;
        if (near == 1) t += c.g;
        else if (near == 2) t += c.n - c.p;
        else if (near == 3) t += _draw(seed, 7, 2 * (c.n - c.p));
        else if (near == 4) t = 1 + _draw(seed, 8, 2 ** 35);
    }

    function _draw(uint256 seed, uint256 what, uint256 below) private pure returns (uint256) {
        return uint256(keccak256(abi.encode(seed, what))) % below;
    }

    /// L19 The status is the first line of the table that matches.
    function testFuzz_status_is_the_first_match(uint256 seed) external pure {
        Case memory c = _case(seed);
        require(c.s.nextBoundary(c.terms) == c.n, "the next boundary");
        require(c.s.statusAt(c.terms, c.until, c.t) == _expected(c), "status");
    }

    function _expected(Case memory c) private pure returns (Status expected) {
        expected = Status.EXPIRED;
        if (c.t < c.n) expected = Status.PAST_DUE;
        if (c.t < c.p + c.g) expected = Status.ACTIVE;
        if (c.paused) expected = Status.PAUSED;
        if (c.t >= c.p && (c.ending || c.stopped || (c.limited && c.t >= c.until))) expected = Status.CANCELLED;
        if (c.cancelled) expected = Status.CANCELLED;
    }

    function testFuzz_unknown_is_none_at_every_time(uint256 t, uint256 until) external pure {
        SubscriptionWord none = SubscriptionWord.wrap(0);
        require(none.statusAt(PayeeWord.wrap(0), until, t) == Status.NONE, "status");
        require(none.renewedThrough(PayeeWord.wrap(0), t) == 0, "collectable");
    }

    /// L4 L6 A plain record is collectable when it is due and not expired, and what is bought ends where it should.
    function testFuzz_renewal_buys_the_next_period(uint256 seed) external pure {
        Case memory c = _case(seed);
        if (!c.s.isPlain()) return;
        Status status = c.s.statusAt(c.terms, 0, c.t);
        bool due = status == Status.PAST_DUE || (status == Status.ACTIVE && c.t >= c.p);
        uint256 end = c.s.renewedThrough(c.terms, c.t);
        require((end != 0) == due, "collectable");
        if (!due) return;
        (uint256 other, uint256 anchor) = Standing.periodFrom(c.s.nextStart(c.terms, c.t), c.terms, 0);
        require(end == other && anchor == 0, "the two ways to the end differ");
        require(end == (c.t < c.p + c.g ? c.p : c.t - c.g) + c.i, "the period's end");
        require(end > c.t && end > c.p, "a period that is past");
        require(end <= c.t + c.i, "a period that starts in the future");
    }

    /// L25 A period ends as many months later, on the anchor or the month's last day, at the start's time of day.
    function testFuzz_a_period_ends_on_its_anchor(uint256 seed) external pure {
        Case memory c = _case(seed);
        if (!c.months) return;
        uint256 start = c.t < c.p ? c.p : c.t;
        (uint256 end, uint256 anchor) = Standing.periodFrom(start, c.terms, c.anchor);
        require(anchor == Almanac.anchorAt(start, c.anchor), "anchor");
        require(end == Almanac.later(start, c.i, anchor), "end");
        require(end > start && end % 1 days == start % 1 days, "time of day");
    }

    /// L26 Collected later, at any time, the period never ends on an earlier date.
    function testFuzz_no_later_collection_ends_on_an_earlier_date(uint256 seed) external pure {
        Case memory c = _case(seed);
        uint256 span = 2 * (c.n - c.p);
        uint256 t = c.p + _draw(seed, 20, span);
        if (c.months && _draw(seed, 23, 2) == 0) {
            // The last days of a month: where the anchor moves, and where it stays.
            (uint256 month, ) = Almanac.dateOf(t / 1 days);
            uint256 end = Almanac.dayOf(month, 31 - _draw(seed, 24, 5)) * 1 days + _draw(seed, 25, 1 days);
            t = c.g + (end < c.p ? c.p : end);
        }
        uint256 later = t + (_draw(seed, 21, 2) == 0 ? _draw(seed, 22, 3 days) : _draw(seed, 22, span));
        (uint256 end, ) = Standing.periodFrom(c.s.nextStart(c.terms, t), c.terms, c.anchor);
        (uint256 laterEnd, ) = Standing.periodFrom(c.s.nextStart(c.terms, later), c.terms, c.anchor);
        require(laterEnd / 1 days >= end / 1 days, "an earlier date");
        if (!c.months) require(laterEnd >= end, "an earlier time");
        require(end > t, "a period that is past");
    }

    /// A20 Renewed at whatever second inside grace, a hundred times in a row: no drift.
    function testFuzz_renewals_inside_grace_never_drift(uint256 seed) external pure {
        Case memory c = _case(seed);
        if (c.g == 0 || c.i > 366 days) return;
        SubscriptionWord s = SubscriptionWords.pack(address(1), c.p, 1, c.anchor);
        (uint256 month, ) = Almanac.dateOf(c.p / 1 days);
        for (uint256 n = 1; n <= 100; ++n) {
            uint256 t = s.paidThrough() + _draw(seed, 100 + n, c.g);
            uint256 expected = c.p + n * c.i;
            if (c.months) expected = Almanac.dayOf(month + n * c.i, c.anchor) * 1 days + (c.p % 1 days);
            if (expected > 2 ** 35) return;
            (uint256 end, uint256 anchor) = Standing.periodFrom(s.nextStart(c.terms, t), c.terms, s.anchorDay());
            require(end == expected && anchor == c.anchor, "drift");
            s = s.withPeriod(1, end, anchor);
        }
    }

    /// L7 L30 Credit is the unused share of the price, rounded down, never above it, and none of an introduction.
    function testFuzz_credit_is_the_unused_share(uint256 seed, uint96 amount) external pure {
        Case memory c = _case(seed);
        uint256 length = c.months ? c.p - Almanac.earlier(c.p, c.i, c.anchor) : c.i;
        if (length >= c.p) return;
        uint256 rest = _draw(seed, 30, length + 1);
        uint256 credit = c.s.creditFor(c.terms, amount, c.p - rest);
        require(credit <= amount, "above the price");
        uint256 share = uint256(amount) * rest;
        require(credit * length <= share, "rounded up");
        require((credit + 1) * length > share, "rounded down by more than one");
        require(c.s.asIntro().creditFor(c.terms, amount, c.p - rest) == 0, "an introduction was credited");
    }
}
