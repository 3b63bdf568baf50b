// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Status} from "../interfaces/ITurnpike.sol";
import {PayeeWord, SubscriptionWord} from "./Words.sol";

/// @title The rules of time: standing, collection, periods and credit
/// @notice Pure; `t` is always the time judged, in unix seconds.
/// @dev Unchecked sums: times are below 2^40 (the year 36,812) and intervals below 2^32, in words of 256 bits.
library Standing {
    /// @dev The table at `ITurnpike.statusOf`, in the order that is cheapest for a record that is in order. An unknown
    /// record has no flag and an empty window: it falls through to the end.
    function statusAt(SubscriptionWord s, PayeeWord terms, uint256 t) internal pure returns (Status) {
        uint256 paidThrough = s.paidThrough();
        if (!s.isUnflagged()) {
            if (s.isCancelled() || (s.isEnding() && t >= paidThrough)) return Status.CANCELLED;
            if (s.isPaused()) return Status.PAUSED;
        }
        unchecked {
            if (t < paidThrough + terms.grace()) return Status.ACTIVE;
            if (t < paidThrough + terms.interval()) return Status.PAST_DUE;
        }
        return s.exists() ? Status.EXPIRED : Status.NONE;
    }

    /// @dev `statusAt(...) == ACTIVE`, short for the record that every debit hopes to find: without a flag.
    function isActive(SubscriptionWord s, PayeeWord terms, uint256 t) internal pure returns (bool) {
        if (!s.isUnflagged()) return statusAt(s, terms, t) == Status.ACTIVE;
        unchecked {
            return t < uint256(s.paidThrough()) + terms.grace();
        }
    }

    /// @dev The end of the period that anyone may collect at `t`, or zero when there is none to collect: not due
    /// (inclusive), expired, paused, ending or ended. Inside grace the period is continuous; later it starts `grace`
    /// ago: the grace that was served is always paid, time that was not served never.
    function renewedThrough(SubscriptionWord s, PayeeWord terms, uint256 t) internal pure returns (uint40) {
        uint256 paidThrough = s.paidThrough();
        uint256 interval = terms.interval();
        unchecked {
            uint256 late = t - paidThrough; // before it is due, this wraps to more than any interval
            if (late >= interval || !s.isUnflagged()) return 0;
            uint256 grace = terms.grace();
            return uint40((late < grace ? paidThrough : t - grace) + interval);
        }
    }

    /// @dev What the unused rest of a period is worth, rounded down: at most `amount`, as `remaining <= interval`.
    function creditFor(uint96 amount, uint256 remaining, uint32 interval) internal pure returns (uint256) {
        return (uint256(amount) * remaining) / interval;
    }
}
