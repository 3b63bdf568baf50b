// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Status} from "../interfaces/ITurnpike.sol";
import {PayeeWord, SubscriptionWord} from "./Words.sol";

/// @title The rules of time: standing, collection, periods and credit
/// @notice Pure; `t` is always the time judged, in unix seconds.
library Standing {
    /// @dev The first line that matches decides; see the table at `ITurnpike.statusOf`.
    function statusAt(SubscriptionWord s, PayeeWord terms, uint256 t) internal pure returns (Status) {
        if (!s.exists()) return Status.NONE;
        uint256 paidThrough = s.paidThrough();
        if (s.isCancelled() || (s.isEnding() && t >= paidThrough)) return Status.CANCELLED;
        if (s.isPaused()) return Status.PAUSED;
        if (t < paidThrough + terms.grace()) return Status.ACTIVE;
        if (t < paidThrough + terms.interval()) return Status.PAST_DUE;
        return Status.EXPIRED;
    }

    /// @dev Whether anyone may collect the next period: due (inclusive), not yet expired, and neither paused nor ended.
    /// The same as "ACTIVE, t >= paidThrough and not ending, or PAST_DUE", in fewer steps for the path that is paid for
    /// most. An unknown record has neither a plan nor an interval: its window is empty.
    function isCollectable(SubscriptionWord s, PayeeWord terms, uint256 t) internal pure returns (bool) {
        uint256 paidThrough = s.paidThrough();
        return s.isUnflagged() && t >= paidThrough && t < paidThrough + terms.interval();
    }

    /// @dev The end of the period that a renewal at `t` buys. Inside grace the period is continuous; later it starts
    /// `grace` ago: the grace that was served is always paid, time that was not served never.
    /// The sums fit: `t` is below 2^40 for the next 34,000 years, and an interval adds at most 2^32.
    function renewedThrough(uint256 paidThrough, PayeeWord terms, uint256 t) internal pure returns (uint40) {
        uint256 grace = terms.grace();
        uint256 start = t < paidThrough + grace ? paidThrough : t - grace;
        return uint40(start + terms.interval());
    }

    /// @dev What the unused rest of a period is worth, rounded down: at most `amount`, as `remaining <= interval`.
    function creditFor(uint96 amount, uint256 remaining, uint32 interval) internal pure returns (uint256) {
        return (uint256(amount) * remaining) / interval;
    }
}
