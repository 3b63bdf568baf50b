// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Calendar} from "../../contracts/libraries/Calendar.sol";
import {Almanac} from "./Almanac.sol";

/// @notice L25 The contracts' calendar against one that counts, from 1970 to 4200.
/// @dev The contracts count months from March of the year 0, the almanac from January 1970.
contract CalendarTest {
    uint256 private constant MARCH_YEAR_0 = 1970 * 12 - 2;
    uint256 private constant LAST_DAY = 814_500; // in the year 4200

    function _agree(uint256 day) private pure {
        (uint256 month, uint256 dayOfMonth) = Calendar.monthOf(day);
        (uint256 expectedMonth, uint256 expectedDay) = Almanac.dateOf(day);
        require(month == expectedMonth + MARCH_YEAR_0, "month");
        require(dayOfMonth == expectedDay, "day of the month");
        require(Calendar.daysIn(month) == Almanac.lengthOf(expectedMonth), "length");
        require(Calendar.firstDayOf(month) == day + 1 - dayOfMonth, "first day");
    }

    function testFuzz_a_day_has_its_date(uint256 day) external pure {
        _agree(day % LAST_DAY);
    }

    /// Each day that a record can hold, in three parts: to the end of 4147, the year of the last one.
    function test_every_day_from_1970_to_2695() external pure {
        _everyDay(1970, 2695);
    }

    function test_every_day_from_2696_to_3421() external pure {
        _everyDay(2696, 3421);
    }

    function test_every_day_from_3422_to_4147() external pure {
        require(Almanac.dayOf(12 * (4148 - 1970), 1) > uint256(2 ** 36 - 1) / 1 days, "a later year can be held");
        _everyDay(3422, 4147);
    }

    function _everyDay(uint256 firstYear, uint256 lastYear) private pure {
        uint256 day = Almanac.dayOf(12 * (firstYear - 1970), 1);
        for (uint256 m = 12 * (firstYear - 1970); m < 12 * (lastYear + 1 - 1970); ++m) {
            uint256 month = m + MARCH_YEAR_0;
            uint256 length = Almanac.lengthOf(m);
            require(Calendar.firstDayOf(month) == day, "first day");
            require(Calendar.daysIn(month) == length, "length");
            for (uint256 d = 1; d <= length; ++d) {
                (uint256 found, uint256 dayOfMonth) = Calendar.monthOf(day);
                require(found == month && dayOfMonth == d, "date");
                ++day;
            }
        }
    }

    /// Dates that anyone can look up: `date -u -d 2024-02-29 +%s`.
    function test_known_dates() external pure {
        uint32[6] memory times = [0, 951_782_400, 1_709_164_800, 1_767_139_200, 4_107_456_000, 4_107_542_400];
        uint16[3][6] memory dates = [
            [uint16(1970), 1, 1],
            [uint16(2000), 2, 29],
            [uint16(2024), 2, 29],
            [uint16(2025), 12, 31],
            [uint16(2100), 2, 28],
            [uint16(2100), 3, 1]
        ];
        for (uint256 i = 0; i < 6; ++i) {
            uint256 day = times[i] / 86_400;
            (uint256 month, uint256 dayOfMonth) = Calendar.monthOf(day);
            require(month == uint256(dates[i][0]) * 12 + dates[i][1] - 3 && dayOfMonth == dates[i][2], "date");
            _agree(day);
        }
    }

    function testFuzz_a_day_in_a_month_is_never_in_the_next(uint256 month, uint256 dayOfMonth) external pure {
        (month, dayOfMonth) = (month % (12 * 2_200), 1 + (dayOfMonth % 31));
        uint256 day = Calendar.dayIn(month + MARCH_YEAR_0, dayOfMonth);
        require(day == Almanac.dayOf(month, dayOfMonth), "day");
        (uint256 found, uint256 foundDay) = Calendar.monthOf(day);
        require(found == month + MARCH_YEAR_0, "another month");
        require(foundDay == dayOfMonth || foundDay == Almanac.lengthOf(month), "neither the day nor the last one");
    }
}
