// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Calendar} from "../../contracts/libraries/Calendar.sol";
import {Standing} from "../../contracts/libraries/Standing.sol";
import {PayeeWord, SubscriptionWord} from "../../contracts/libraries/Words.sol";

/// @notice Periods in months, in any calendar whose months have 28 to 31 days: one month, and another up to 1,200 months
/// later. `start` is any second of the first month, and the anchor any day.
contract MonthsLemmas {
    using Standing for SubscriptionWord;

    uint256 private constant MONTHS = 1 << 225;

    /// @dev A plan of `count` months.
    function _plan(uint32 count) private pure returns (PayeeWord) {
        unchecked {
            return PayeeWord.wrap((uint256(count) << 160) + MONTHS);
        }
    }

    function _requireStart(uint32 first, uint32 length, uint40 start, uint8 anchor) private pure {
        Calendar._require();
        require(anchor < 32);
        unchecked {
            uint256 day = uint256(start) / 1 days;
            require(day >= first && day < uint256(first) + length);
        }
    }

    /// A period ends on its anchor, or its month's last day, at the start's time of day; after at least 28 days a month.
    function lemmaMonthsEnd(
        uint32,
        uint32 count,
        uint32 first,
        uint32 length,
        uint32 firstLater,
        uint32 lengthLater,
        uint40 start,
        uint8 anchor
    ) external pure {
        _requireStart(first, length, start, anchor);
        (uint256 end, uint256 kept) = Standing.periodFrom(start, _plan(count), anchor);
        unchecked {
            uint256 dayOfMonth = uint256(start) / 1 days - first + 1;
            assert(kept == dayOfMonth || (kept == anchor && anchor > dayOfMonth && dayOfMonth == length));
            uint256 last = kept < lengthLater ? kept : lengthLater;
            assert(end / 1 days == firstLater + last - 1 && end % 1 days == start % 1 days);
            assert(end >= start + 28 days * uint256(count));
        }
    }

    /// Of two starts in one month, the later one never ends on an earlier date.
    function lemmaMonthsLater(
        uint32,
        uint32 count,
        uint32 first,
        uint32 length,
        uint32,
        uint32,
        uint40 start,
        uint40 later,
        uint8 anchor
    ) external pure {
        _requireStart(first, length, start, anchor);
        _requireStart(first, length, later, anchor);
        require(start <= later);
        (uint256 end, ) = Standing.periodFrom(start, _plan(count), anchor);
        (uint256 laterEnd, ) = Standing.periodFrom(later, _plan(count), anchor);
        assert(laterEnd / 1 days >= end / 1 days);
    }

    /// The next boundary of a record that is paid until `start` is the end of the period that starts there.
    function lemmaMonthsNext(
        uint32,
        uint32 count,
        uint32 first,
        uint32 length,
        uint32,
        uint32,
        uint40 start,
        SubscriptionWord s
    ) external pure {
        _requireStart(first, length, start, 0);
        uint256 anchor = s.anchorDay();
        unchecked {
            uint256 dayOfMonth = uint256(start) / 1 days - first + 1;
            require(dayOfMonth == (anchor < length ? anchor : length)); // what lemmaMonthsEnd shows of each end
        }
        require(s.paidThrough() == start);
        (uint256 end, uint256 kept) = Standing.periodFrom(start, _plan(count), anchor);
        assert(kept == anchor && end == s.nextBoundary(_plan(count)));
    }
}
