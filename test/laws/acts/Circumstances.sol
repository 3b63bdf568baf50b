// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike, Terms} from "../../../contracts/interfaces/ITurnpike.sol";
import {FickleToken} from "../doubles/FickleToken.sol";
import {FickleWallet} from "../doubles/FickleWallet.sol";
import {vm} from "../Vm.sol";
import {Collections} from "./Collections.sol";

/// @notice What providers do, and what happens around all of them: time, plans, empty wallets, tokens that turn bad.
abstract contract Circumstances is Collections {
    uint256 private constant MOST_PLANS = 18;

    /// @notice A provider acts on its plans, or somebody else tries to.
    function provide(uint256 seed) external atClock {
        uint256 roll = _draw(seed, 5);
        if (roll < 2) _create(seed);
        else if (roll < 4) _deprecate(seed);
        else _appoint(seed);
    }

    // ------------------------------------------------------------------ plans

    function _somePlan(uint256 seed) internal returns (Terms memory terms) {
        uint32[5] memory intervals = [uint32(10), 86_399, 30 days, 90 days, 365 days];
        terms.token = _draw(seed, 2) == 0 ? address(sound) : address(fickle);
        terms.amount = uint96(_draw(seed, 8) == 0 ? 1 : 1 + _draw(seed, 1e9));
        terms.interval = intervals[_draw(seed, 5)];
        terms.grace = uint32(_draw(seed, 4) == 0 ? 0 : _draw(seed, terms.interval / (1 + _draw(seed, 10))));
        terms.payTo = payees[_draw(seed, 2)];
    }

    function _create(uint256 seed) private {
        Terms memory terms = _somePlan(seed);
        address provider = providers[_draw(seed, 2)];
        if (_draw(seed, 4) == 0) return _createUnsoundPlan(seed, provider, terms);
        if (plans.length >= MOST_PLANS) return;
        _createPlan(provider, terms, bytes32(seed), "{}");
    }

    function _createPlan(address provider, Terms memory terms, bytes32 salt, string memory metadata) internal {
        bytes32 planId = keccak256(abi.encode(provider, terms, salt, keccak256(bytes(metadata))));
        bytes memory err;
        if (planAt[planId] != 0) {
            err = abi.encodeWithSelector(ITurnpike.PlanExists.selector, planId);
        } else {
            plans.push(Plan(planId, provider, terms, salt, metadata, false, bytes32(0)));
            planAt[planId] = plans.length;
            mayDebit[planId][provider] = true;
        }
        intent.ofPlans = true;
        _send(provider, abi.encodeCall(ITurnpike.createPlan, (terms, salt, metadata)), err, new bytes32[](0));
    }

    function _createUnsoundPlan(uint256 seed, address provider, Terms memory terms) private {
        string memory field;
        uint256 roll = _draw(seed, 7);
        if (roll == 0) (field, terms.token) = ("token", address(0x1234));
        else if (roll == 1) (field, terms.token) = ("token", address(turnpike));
        else if (roll == 2) (field, terms.amount) = ("amount", 0);
        else if (roll == 3) (field, terms.interval) = ("interval", 0);
        else if (roll == 4) (field, terms.grace) = ("grace", terms.interval);
        else if (roll == 5) (field, terms.payTo) = ("payTo", address(0));
        else (field, terms.payTo) = ("payTo", address(turnpike));
        intent.ofPlans = true;
        _send(
            provider,
            abi.encodeCall(ITurnpike.createPlan, (terms, bytes32(seed), "")),
            abi.encodeWithSelector(ITurnpike.InvalidTerms.selector, field),
            new bytes32[](0)
        );
    }

    /// @dev Rarely: most plans have to live on.
    function _deprecate(uint256 seed) private {
        Plan storage plan = plans[_draw(seed, plans.length)];
        Plan storage next = plans[_draw(seed, plans.length)];
        address caller = _draw(seed, 4) == 0 ? providers[_draw(seed, 2)] : plan.provider;
        bytes32 successor = _draw(seed, 2) == 0 ? next.id : bytes32(0);
        bytes memory err;
        if (caller != plan.provider) {
            err = abi.encodeWithSelector(ITurnpike.NotProvider.selector, plan.id, caller);
        } else if (plan.deprecated) {
            err = abi.encodeWithSelector(ITurnpike.PlanDeprecated.selector, plan.id);
        } else if (successor != bytes32(0) && (next.provider != caller || next.deprecated || next.id == plan.id)) {
            err = abi.encodeWithSelector(ITurnpike.InvalidSuccessor.selector, plan.id, successor);
        } else {
            return _closePlan(plan, successor);
        }
        intent.ofPlans = true;
        _send(caller, abi.encodeCall(ITurnpike.deprecatePlan, (plan.id, successor)), err, new bytes32[](0));
    }

    function _closePlan(Plan storage plan, bytes32 successor) internal {
        (plan.deprecated, plan.successor) = (true, successor);
        intent.ofPlans = true;
        bytes memory data = abi.encodeCall(ITurnpike.deprecatePlan, (plan.id, successor));
        _send(plan.provider, data, "", new bytes32[](0));
    }

    function _appoint(uint256 seed) private {
        Plan storage plan = plans[_draw(seed, plans.length)];
        address operator = operators[_draw(seed, 2)];
        bool allowed = _draw(seed, 3) != 0;
        address caller = _draw(seed, 4) == 0 ? operator : plan.provider;
        bytes memory err;
        if (caller != plan.provider) {
            err = abi.encodeWithSelector(ITurnpike.NotProvider.selector, plan.id, caller);
        } else {
            mayDebit[plan.id][operator] = allowed;
        }
        intent.ofPlans = true;
        _send(caller, abi.encodeCall(ITurnpike.setOperator, (plan.id, operator, allowed)), err, new bytes32[](0));
    }

    // ------------------------------------------------------------------ money and manners

    /// @notice One token turns bad, or good again; one wallet changes its mood.
    function upset(uint256 seed) external atClock {
        uint256 faults = uint256(type(FickleToken.Fault).max) + 1;
        uint256 roll = _draw(seed, faults + 8);
        // Sound at times, and of its faults most often one that comes to something.
        FickleToken.Fault rest = roll < faults + 2 ? FickleToken.Fault.Reenters : FickleToken.Fault.None;
        fickle.setFault(roll < faults ? FickleToken.Fault(roll) : rest);
        uint256 moods = uint256(type(FickleWallet.Mood).max) + 1;
        roll = _draw(seed, 3 * moods);
        subscribers[2 + _draw(seed, 2)].wallet.setMood(FickleWallet.Mood(roll < moods ? roll : 0));
    }

    /// @notice A subscriber's money or approval runs short, or is there again.
    function fund(uint256 seed) external atClock {
        address self = subscribers[_draw(seed, subscribers.length)].self;
        bool onFickle = _draw(seed, 2) == 0;
        address token = onFickle ? address(fickle) : address(sound);
        uint256 roll = _draw(seed, 8);
        if (roll < 2) {
            uint256 approval = roll == 0 ? 0 : _draw(seed, 1e9);
            _approve(self, onFickle, approval);
            approvals[token][self] = approval;
        } else if (roll < 4) {
            uint256 kept = _draw(seed, 2e6);
            if (kept > balances[token][self]) return;
            _drain(self, onFickle, balances[token][self] - kept);
            balances[token][self] = kept;
        } else {
            _approve(self, onFickle, type(uint256).max);
            approvals[token][self] = type(uint256).max;
            if (onFickle) fickle.mint(self, MUCH);
            else sound.mint(self, MUCH);
            balances[token][self] += MUCH;
        }
    }

    function _drain(address from, bool onFickle, uint256 amount) private {
        vm.prank(from);
        if (onFickle) fickle.transfer(address(0xdead), amount);
        else sound.transfer(address(0xdead), amount);
    }
}
