// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Any calendar at all, in place of `contracts/libraries/Calendar.sol`
/// @notice It knows two months, as a lemma's first arguments say: `month` and the one `count` months later, with the
/// first day and the length of each. Asked for anything else it panics, so that a proof also shows that no other month
/// matters. `Calendar.t.sol` checks the real one on every day that a record can hold.
/// @dev The functions that prove.cjs compiles `Standing` with; `dayIn` is the real one's.
library Calendar {
    uint256 internal constant DAY = 86_400;

    /// @dev The lemma's argument at `place`.
    function _argument(uint256 place) private pure returns (uint256 value) {
        assembly ("memory-safe") {
            value := calldataload(add(4, mul(place, 32)))
        }
    }

    /// @dev The arguments: month, count, first, length, firstLater, lengthLater.
    function _require() internal pure {
        (uint256 count, uint256 length, uint256 later) = (_argument(1), _argument(3), _argument(5));
        require(_argument(0) < 2 ** 20 && _argument(2) < 2 ** 24 && count > 0 && count <= 1_200);
        require(length >= 28 && length <= 31 && later >= 28 && later <= 31);
        // The months between have 28 to 31 days, too.
        uint256 end = _argument(2) + length;
        require(_argument(4) >= end + 28 * (count - 1) && _argument(4) <= end + 31 * (count - 1));
    }

    function monthOf(uint256 day) internal pure returns (uint256 month, uint256 dayOfMonth) {
        unchecked {
            (uint256 first, uint256 later) = (_argument(2), _argument(4));
            if (day >= later) {
                assert(day < later + _argument(5));
                return (_argument(0) + _argument(1), day - later + 1);
            }
            assert(day >= first && day < first + _argument(3));
            return (_argument(0), day - first + 1);
        }
    }

    function firstDayOf(uint256 month) internal pure returns (uint256 day) {
        if (month == _argument(0)) return _argument(2);
        assert(month == _argument(0) + _argument(1));
        return _argument(4);
    }

    function daysIn(uint256 month) internal pure returns (uint256 length) {
        if (month == _argument(0)) return _argument(3);
        assert(month == _argument(0) + _argument(1));
        return _argument(5);
    }

    function dayIn(uint256 month, uint256 dayOfMonth) internal pure returns (uint256 day) {
        uint256 last = daysIn(month);
        unchecked {
            day = firstDayOf(month) + (dayOfMonth < last ? dayOfMonth : last) - 1;
        }
    }
}
