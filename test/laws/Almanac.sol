// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @notice A calendar that counts year by year and month by month, in UTC. It shares nothing with the contracts'.
/// @dev Months count from January 1970 = 0, days of a month from 1.
library Almanac {
    bytes private constant LENGTHS = hex"1f1c1f1e1f1e1f1f1e1f1e1f";
    /// @dev 1 January 2024, where the count starts for later dates: `date -u -d @1704067200`.
    uint256 private constant DAYS_TO_2024 = 19_723;

    function isLeap(uint256 year) internal pure returns (bool) {
        if (year % 400 == 0) return true;
        if (year % 100 == 0) return false;
        return year % 4 == 0;
    }

    function lengthOfYear(uint256 year) internal pure returns (uint256) {
        return isLeap(year) ? 366 : 365;
    }

    function lengthOf(uint256 month) internal pure returns (uint256) {
        if (month % 12 == 1 && isLeap(1970 + month / 12)) return 29;
        return uint8(LENGTHS[month % 12]);
    }

    /// @param day days since 1 January 1970
    function dateOf(uint256 day) internal pure returns (uint256 month, uint256 dayOfMonth) {
        uint256 year = 1970;
        if (day >= DAYS_TO_2024) (year, day) = (2024, day - DAYS_TO_2024);
        while (day >= lengthOfYear(year)) {
            day -= lengthOfYear(year);
            ++year;
        }
        month = (year - 1970) * 12;
        while (day >= lengthOf(month)) {
            day -= lengthOf(month);
            ++month;
        }
        dayOfMonth = day + 1;
    }

    /// @return day days since 1 January 1970, of the day that `dayOfMonth` names in `month`, or of its last day
    function dayOf(uint256 month, uint256 dayOfMonth) internal pure returns (uint256 day) {
        uint256 year = 1970;
        if (month >= 12 * 54) (year, day) = (2024, DAYS_TO_2024);
        for (; year < 1970 + month / 12; ++year) day += lengthOfYear(year);
        for (uint256 m = month - (month % 12); m < month; ++m) day += lengthOf(m);
        uint256 last = lengthOf(month);
        day += (dayOfMonth < last ? dayOfMonth : last) - 1;
    }

    /// @dev `count` months after the month of `from`, on `anchor` or the month's last day, at the time of day of `from`.
    function later(uint256 from, uint256 count, uint256 anchor) internal pure returns (uint256) {
        (uint256 month, ) = dateOf(from / 1 days);
        return dayOf(month + count, anchor) * 1 days + (from % 1 days);
    }

    /// @dev The same, before.
    function earlier(uint256 from, uint256 count, uint256 anchor) internal pure returns (uint256) {
        (uint256 month, ) = dateOf(from / 1 days);
        return dayOf(month - count, anchor) * 1 days + (from % 1 days);
    }

    /// @dev The anchor of a period that starts at `start`: its day; on a month's last day a larger one stays.
    function anchorAt(uint256 start, uint256 before) internal pure returns (uint256) {
        (uint256 month, uint256 day) = dateOf(start / 1 days);
        return before > day && day == lengthOf(month) ? before : day;
    }
}
