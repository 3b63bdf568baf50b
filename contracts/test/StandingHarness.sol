// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Status} from "../interfaces/TurnpikeTypes.sol";
import {Calendar} from "../libraries/Calendar.sol";
import {Standing} from "../libraries/Standing.sol";
import {PayeeWord, PlanWords, SubscriptionWord, SubscriptionWords} from "../libraries/Words.sol";

/// @title The rules of time, callable alone
contract StandingHarness {
    using Standing for SubscriptionWord;

    struct Record {
        uint40 paidThrough;
        bool intro;
        bool limited;
        bool paused;
        bool ending;
        bool cancelled;
        uint40 until;
        uint8 anchorDay;
        uint32 interval;
        bool months;
        uint32 grace;
    }

    function judge(Record calldata r, uint256 t) external pure returns (Status status, uint256 nextBoundary) {
        (SubscriptionWord s, PayeeWord terms) = _words(r);
        return (s.statusAt(terms, r.until, t), s.nextBoundary(terms));
    }

    /// @return plain the end of the next period by the rule of plain records, 0: none to collect
    function collect(
        Record calldata r,
        uint256 t
    ) external pure returns (uint256 plain, uint256 start, uint256 end, uint256 anchor) {
        (SubscriptionWord s, PayeeWord terms) = _words(r);
        if (s.isPlain()) plain = s.renewedThrough(terms, t);
        start = s.nextStart(terms, t);
        (end, anchor) = Standing.periodFrom(start, terms, s.anchorDay());
    }

    function unknown(uint256 t) external pure returns (Status status, uint256 renewedThrough) {
        SubscriptionWord s = SubscriptionWord.wrap(0);
        PayeeWord terms = PayeeWord.wrap(0);
        return (s.statusAt(terms, 0, t), s.renewedThrough(terms, t));
    }

    function periodFrom(
        uint256 start,
        uint32 interval,
        bool months,
        uint256 anchor
    ) external pure returns (uint256 end, uint256 newAnchor) {
        return Standing.periodFrom(start, PlanWords.packPayee(address(2), interval, months, 0), anchor);
    }

    function creditFor(Record calldata r, uint96 amount, uint256 t) external pure returns (uint256) {
        (SubscriptionWord s, PayeeWord terms) = _words(r);
        return s.creditFor(terms, amount, t);
    }

    function monthOf(uint256 day) external pure returns (uint256 month, uint256 dayOfMonth, uint256 daysInMonth) {
        (month, dayOfMonth) = Calendar.monthOf(day);
        daysInMonth = Calendar.daysIn(month);
    }

    function _words(Record calldata r) private pure returns (SubscriptionWord s, PayeeWord terms) {
        s = SubscriptionWords.pack(address(1), r.paidThrough, 1, r.anchorDay);
        if (r.intro) s = s.asIntro();
        if (r.limited) s = s.withNext(true, false);
        if (r.paused) s = s.asPaused();
        if (r.ending) s = s.asEnding();
        if (r.cancelled) s = s.asCancelled();
        terms = PlanWords.packPayee(address(2), r.interval, r.months, r.grace);
    }
}
