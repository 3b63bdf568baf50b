// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Status} from "../interfaces/TurnpikeTypes.sol";
import {Standing} from "../libraries/Standing.sol";
import {PayeeWord, PlanWords, SubscriptionWord, SubscriptionWords} from "../libraries/Words.sol";

/// @title The rules of time, callable alone
contract StandingHarness {
    using Standing for SubscriptionWord;

    struct Record {
        uint40 paidThrough;
        bool paused;
        bool ending;
        bool cancelled;
        uint32 interval;
        uint32 grace;
    }

    function judge(
        Record calldata r,
        uint256 t
    ) external pure returns (Status status, bool active, uint40 renewedThrough) {
        SubscriptionWord s = SubscriptionWords.pack(address(1), r.paidThrough, 1);
        if (r.paused) s = s.asPaused();
        if (r.ending) s = s.asEnding();
        if (r.cancelled) s = s.asCancelled();
        PayeeWord terms = PlanWords.packPayee(address(2), r.interval, r.grace);
        return (s.statusAt(terms, t), s.isActive(terms, t), s.renewedThrough(terms, t));
    }

    function unknown(uint256 t) external pure returns (Status status, bool active, uint40 renewedThrough) {
        SubscriptionWord s = SubscriptionWord.wrap(0);
        PayeeWord terms = PayeeWord.wrap(0);
        return (s.statusAt(terms, t), s.isActive(terms, t), s.renewedThrough(terms, t));
    }

    function creditFor(uint96 amount, uint256 remaining, uint32 interval) external pure returns (uint256) {
        return Standing.creditFor(amount, remaining, interval);
    }
}
