// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Standing} from "../../contracts/libraries/Standing.sol";
import {PayeeWord, SubscriptionWord} from "../../contracts/libraries/Words.sol";

/// @notice What the rest of a period in seconds is worth: any record, plan, amount and time within the paid period.
contract CreditLemmas {
    using Standing for SubscriptionWord;

    function _requireRest(SubscriptionWord s, PayeeWord terms, uint40 t) private pure {
        require(!s.isIntro() && !terms.isMonthly() && t <= s.paidThrough());
        require(s.paidThrough() - t <= terms.interval() && terms.interval() > 0);
    }

    /// Never more than the price, which the whole period is worth.
    function lemmaCreditBound(SubscriptionWord s, PayeeWord terms, uint96 amount, uint40 t) external pure {
        _requireRest(s, terms, t);
        uint256 credit = s.creditFor(terms, amount, t);
        assert(credit <= amount);
        if (s.paidThrough() - t == terms.interval()) assert(credit == amount);
        if (s.paidThrough() == t) assert(credit == 0);
    }

    /// The exact share, rounded down.
    function lemmaCreditShare(SubscriptionWord s, PayeeWord terms, uint96 amount, uint40 t) external pure {
        _requireRest(s, terms, t);
        uint256 credit = s.creditFor(terms, amount, t);
        uint256 exact = uint256(amount) * (s.paidThrough() - t);
        assert(credit * terms.interval() <= exact && exact < (credit + 1) * terms.interval());
    }

    /// Later, it is never worth more.
    function lemmaCreditFalls(
        SubscriptionWord s,
        PayeeWord terms,
        uint96 amount,
        uint40 t,
        uint40 later
    ) external pure {
        _requireRest(s, terms, t);
        require(t <= later && later <= s.paidThrough());
        assert(s.creditFor(terms, amount, later) <= s.creditFor(terms, amount, t));
    }
}
