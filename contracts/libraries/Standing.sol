// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Status} from "../interfaces/ITurnpike.sol";
import {Calendar} from "./Calendar.sol";
import {PayeeWord, SubscriptionWord} from "./Words.sol";

/// @title The rules of time: standing, collection, periods and credit
/// @notice Pure; `t` is always the time judged, in unix seconds.
/// @dev Unchecked sums: times are below 2^40 (the year 36,812) and intervals below 2^32, in words of 256 bits.
library Standing {
    /// @dev The table at `ITurnpike.statusOf`, in the order that is cheapest for a record that is in order. An unknown
    /// record has no flag and an empty window: it falls through to the end.
    /// @param until counts only for a record that is limited
    function statusAt(SubscriptionWord s, PayeeWord terms, uint256 until, uint256 t) internal pure returns (Status) {
        uint256 paidThrough = s.paidThrough();
        if (!s.isUnbounded() || terms.isStopped()) {
            if (s.isCancelled()) return Status.CANCELLED;
            bool isLast = s.isEnding() || terms.isStopped() || (s.isLimited() && t >= until);
            if (isLast && t >= paidThrough) return Status.CANCELLED;
            if (s.isPaused()) return Status.PAUSED;
        }
        unchecked {
            if (t < paidThrough + terms.grace()) return Status.ACTIVE;
        }
        if (t < nextBoundary(s, terms)) return Status.PAST_DUE;
        return s.exists() ? Status.EXPIRED : Status.NONE;
    }

    /// @dev The end of the next period in seconds that anyone may collect at `t`, for a record that `isPlain`; zero
    /// when there is none to collect: not due (inclusive), expired, or on a plan that is stopped. Inside grace the
    /// period is continuous; later it starts `grace` ago: the grace that was served is always paid, time that was not
    /// served never.
    function renewedThrough(SubscriptionWord s, PayeeWord terms, uint256 t) internal pure returns (uint256) {
        uint256 paidThrough = s.paidThrough();
        uint256 interval = terms.interval();
        unchecked {
            uint256 late = t - paidThrough; // before it is due, this wraps to more than any interval
            if (late >= interval || terms.isStopped()) return 0;
            uint256 grace = terms.grace();
            return (late < grace ? paidThrough : t - grace) + interval;
        }
    }

    /// @dev Where the next charged period starts when it is collected at `t`, from paidThrough on: see above.
    function nextStart(SubscriptionWord s, PayeeWord terms, uint256 t) internal pure returns (uint256) {
        uint256 paidThrough = s.paidThrough();
        uint256 grace = terms.grace();
        unchecked {
            return t < paidThrough + grace ? paidThrough : t - grace;
        }
    }

    /// @dev One period from `start` on. A period in months ends on the anchor's day, or its month's last one, at the
    /// start's time of day. The anchor is the day on which it starts; but a start on a month's last day keeps a larger
    /// anchor, or one late second on 28 February would make the 31st the 28th for ever.
    /// @param anchor the anchor so far, 0: none
    /// @return end exclusive
    /// @return newAnchor 1 to 31, or 0 for a period in seconds
    function periodFrom(
        uint256 start,
        PayeeWord terms,
        uint256 anchor
    ) internal pure returns (uint256 end, uint256 newAnchor) {
        unchecked {
            if (!terms.isMonthly()) return (start + terms.interval(), 0);
            uint256 month;
            (month, newAnchor) = Calendar.monthOf(start / Calendar.DAY);
            if (anchor > newAnchor && newAnchor == Calendar.daysIn(month)) newAnchor = anchor;
            end = _at(month + terms.interval(), newAnchor, start);
        }
    }

    /// @dev The period from a signup at `t` on: one of the plan's, or an introduction of so many seconds. Its anchor is
    /// the day on which the first regular period starts.
    /// @param introduction 0: none
    function firstPeriod(
        uint256 t,
        uint256 introduction,
        PayeeWord terms
    ) internal pure returns (uint256 end, uint256 anchor) {
        unchecked {
            uint256 regular = t + introduction;
            (end, anchor) = periodFrom(regular, terms, 0);
            if (introduction != 0) end = regular;
        }
    }

    /// @dev The end of the period after the paid one, were it collected in time.
    function nextBoundary(SubscriptionWord s, PayeeWord terms) internal pure returns (uint256) {
        uint256 paidThrough = s.paidThrough();
        unchecked {
            if (!terms.isMonthly()) return paidThrough + terms.interval();
            (uint256 month, ) = Calendar.monthOf(paidThrough / Calendar.DAY);
            return _at(month + terms.interval(), s.anchorDay(), paidThrough);
        }
    }

    /// @dev What the unused rest of the paid period is worth at `t` before its end, rounded down: at most `amount`.
    /// An introduction was not charged at the price, and gives nothing.
    function creditFor(SubscriptionWord s, PayeeWord terms, uint96 amount, uint256 t) internal pure returns (uint256) {
        if (s.isIntro()) return 0;
        uint256 paidThrough = s.paidThrough();
        uint256 length = terms.interval();
        unchecked {
            if (terms.isMonthly()) {
                (uint256 month, ) = Calendar.monthOf(paidThrough / Calendar.DAY);
                length = paidThrough - _at(month - length, s.anchorDay(), paidThrough);
            }
            return (uint256(amount) * (paidThrough - t)) / length;
        }
    }

    /// @dev The anchor's day in `month`, at the time of day of `time`.
    function _at(uint256 month, uint256 anchor, uint256 time) private pure returns (uint256) {
        unchecked {
            return Calendar.dayIn(month, anchor) * Calendar.DAY + (time % Calendar.DAY);
        }
    }
}
