// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Calendar months, in UTC
/// @notice Days count from 1 January 1970, months from March of the year 0, so that a leap day ends its year: then the
/// day on which a month starts needs no table.
/// @dev Proleptic Gregorian calendar, exact from 1970 on. Unchecked: days are below 2^24 and months below 2^20.
library Calendar {
    uint256 internal constant DAY = 86_400;

    uint256 private constant DAYS_IN_400_YEARS = 146_097;
    uint256 private constant DAYS_BEFORE_1970 = 719_468; // since 1 March of the year 0

    /// @return month the month that `day` is in
    /// @return dayOfMonth from 1 on
    function monthOf(uint256 day) internal pure returns (uint256 month, uint256 dayOfMonth) {
        unchecked {
            day += DAYS_BEFORE_1970;
            uint256 ofEra = day % DAYS_IN_400_YEARS;
            // The leap days of the era are left out, then years have 365 days each.
            uint256 yearOfEra = (ofEra - ofEra / 1_460 + ofEra / 36_524 - ofEra / 146_096) / 365;
            uint256 ofYear = ofEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100);
            uint256 monthOfYear = (5 * ofYear + 2) / 153;
            month = (day / DAYS_IN_400_YEARS) * 4_800 + yearOfEra * 12 + monthOfYear;
            dayOfMonth = ofYear - (153 * monthOfYear + 2) / 5 + 1;
        }
    }

    /// @return day the first day of `month`
    function firstDayOf(uint256 month) internal pure returns (uint256 day) {
        unchecked {
            uint256 year = month / 12;
            day = 365 * year + year / 4 - year / 100 + year / 400 + (153 * (month % 12) + 2) / 5 - DAYS_BEFORE_1970;
        }
    }

    /// @return length 28 to 31
    function daysIn(uint256 month) internal pure returns (uint256 length) {
        unchecked {
            length = firstDayOf(month + 1) - firstDayOf(month);
        }
    }

    /// @return day the day of `month` that `dayOfMonth` names, or its last one
    function dayIn(uint256 month, uint256 dayOfMonth) internal pure returns (uint256 day) {
        uint256 last = daysIn(month);
        unchecked {
            day = firstDayOf(month) + (dayOfMonth < last ? dayOfMonth : last) - 1;
        }
    }
}
