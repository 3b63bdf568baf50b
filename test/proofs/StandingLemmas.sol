// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Status} from "../../contracts/interfaces/TurnpikeTypes.sol";
import {Standing} from "../../contracts/libraries/Standing.sol";
import {PayeeWord, SubscriptionWord} from "../../contracts/libraries/Words.sol";

/// @notice The rules of time for periods in seconds, of any record and plan, at any time up to the year 36,812.
contract StandingLemmas {
    using Standing for SubscriptionWord;

    /// The table at `ITurnpike.statusOf`.
    function lemmaStatus(SubscriptionWord s, PayeeWord terms, uint40 until, uint40 t) external pure {
        require(!terms.isMonthly());
        Status found = s.statusAt(terms, until, t);
        uint256 p = s.paidThrough();
        Status expected = Status.EXPIRED;
        if (!s.exists()) expected = Status.NONE;
        else if (s.isCancelled()) expected = Status.CANCELLED;
        else if (t >= p && (s.isEnding() || terms.isStopped())) expected = Status.CANCELLED;
        else if (t >= p && s.isLimited() && t >= until) expected = Status.CANCELLED;
        else if (s.isPaused()) expected = Status.PAUSED;
        else if (t < p + terms.grace()) expected = Status.ACTIVE;
        else if (t < p + terms.interval()) expected = Status.PAST_DUE;
        require(s.exists() || PayeeWord.unwrap(terms) == 0); // an unknown record has no plan
        assert(found == expected);
    }

    /// From `until` on, a record is cancelled once its paid period is over.
    function lemmaUntil(SubscriptionWord s, PayeeWord terms, uint40 until, uint40 t) external pure {
        require(!terms.isMonthly() && s.isLimited() && t >= until && t >= s.paidThrough());
        assert(s.statusAt(terms, until, t) == Status.CANCELLED);
    }

    /// A plain renewal on a plan that goes on is due exactly from paidThrough to the next boundary, and pays for a
    /// period that is not over.
    function lemmaRenewal(SubscriptionWord s, PayeeWord terms, uint40 t) external pure {
        require(s.isPlain() && !terms.isMonthly() && terms.grace() < terms.interval());
        uint256 p = s.paidThrough();
        uint256 end = s.renewedThrough(terms, t);
        bool due = t >= p && t < p + terms.interval() && !terms.isStopped();
        assert((end != 0) == due);
        if (due) {
            assert(end == s.nextStart(terms, t) + terms.interval());
            assert(end > t && end > p && end <= uint256(t) + terms.interval());
            assert(t >= p + terms.grace() || end == p + terms.interval());
        }
    }

    /// A later collection never ends earlier.
    function lemmaLater(SubscriptionWord s, PayeeWord terms, uint40 t, uint40 later) external pure {
        require(!terms.isMonthly() && s.paidThrough() <= t && t <= later);
        (uint256 end, ) = Standing.periodFrom(s.nextStart(terms, t), terms, 0);
        (uint256 laterEnd, ) = Standing.periodFrom(s.nextStart(terms, later), terms, 0);
        assert(laterEnd >= end);
    }

    /// An introduction gives no credit.
    function lemmaIntroduction(SubscriptionWord s, PayeeWord terms, uint96 amount, uint40 t) external pure {
        require(s.isIntro());
        assert(s.creditFor(terms, amount, t) == 0);
    }
}
