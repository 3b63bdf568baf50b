// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike, Terms} from "../../../contracts/interfaces/ITurnpike.sol";
import {PlanView} from "../../../contracts/interfaces/ITurnpikeLens.sol";
import {Premise} from "../Premises.sol";
import {FickleToken} from "../doubles/FickleToken.sol";
import {FickleWallet} from "../doubles/FickleWallet.sol";
import {vm} from "../Vm.sol";
import {Unexpected} from "../World.sol";
import {Collections} from "./Collections.sol";

/// @notice What providers do, and what happens around all of them: time, plans, empty wallets, tokens that turn bad.
abstract contract Circumstances is Collections {
    uint256 private constant MOST_PLANS = 20;

    /// @notice A provider acts on its plans, or somebody else tries to.
    function provide(uint256 seed) external atClock {
        uint256 roll = _draw(seed, 5);
        if (roll < 2) _create(seed);
        else if (roll < 4) _deprecate(seed);
        else _appoint(seed);
        _appoint(seed);
        _appoint(seed);
    }

    // ------------------------------------------------------------------ plans

    function _somePlan(uint256 seed) internal returns (Terms memory terms) {
        uint32[5] memory intervals = [uint32(10), 86_399, 30 days, 90 days, 365 days];
        terms.token = _draw(seed, 2) == 0 ? address(sound) : address(fickle);
        terms.amount = uint96(_draw(seed, 8) == 0 ? 1 : 1 + _draw(seed, 1e9));
        terms.interval = intervals[_draw(seed, 5)];
        terms.months = _draw(seed, 2) == 0;
        if (terms.months) terms.interval = [uint32(1), 1, 2, 3, 12][_draw(seed, 5)];
        uint256 shortest = terms.months ? terms.interval * 28 days : terms.interval;
        terms.grace = uint32(_draw(seed, 4) == 0 ? 0 : _draw(seed, shortest / (1 + _draw(seed, 10))));
        terms.payTo = payees[_draw(seed, 3)];
    }

    function _create(uint256 seed) private {
        Terms memory terms = _somePlan(seed);
        address provider = providers[_draw(seed, 2)];
        if (_draw(seed, 4) == 0) return _createUnsoundPlan(seed, provider, terms);
        if (plans.length >= MOST_PLANS) return;
        _createPlan(provider, terms, bytes32(seed), "{}");
    }

    function _createPlan(address provider, Terms memory terms, bytes32 salt, string memory metadata) internal {
        bytes32 planId = keccak256(
            abi.encode(block.chainid, address(turnpike), provider, terms, salt, keccak256(bytes(metadata)))
        );
        bytes memory err;
        if (planAt[planId] != 0) {
            err = abi.encodeWithSelector(ITurnpike.PlanExists.selector, planId);
        } else {
            Plan storage plan = plans.push();
            (plan.id, plan.provider, plan.terms, plan.salt, plan.metadata) = (planId, provider, terms, salt, metadata);
            (plan.firstProvider, plan.firstPayTo) = (provider, terms.payTo);
            planAt[planId] = plans.length;
            rights[planId][provider] = ALL_RIGHTS;
        }
        _sendOfPlan(planId, provider, abi.encodeCall(ITurnpike.createPlan, (terms, salt, metadata)), err);
    }

    /// @dev Then the plan is compared with the model, in every field.
    function _sendOfPlan(bytes32 planId, address caller, bytes memory data, bytes memory err) private {
        intent.ofPlans = true;
        _send(caller, data, err, new bytes32[](0));
        Plan storage plan = _planOf(planId);
        bytes memory expected = abi.encode(
            PlanView({
                planId: plan.id,
                index: uint32(planAt[planId]),
                provider: plan.provider,
                terms: plan.terms,
                deprecated: plan.deprecated,
                stopped: plan.stopped,
                successor: plan.successor,
                firstPayTo: plan.firstPayTo,
                proposedPayTo: plan.proposedPayTo,
                effectiveAt: uint40(plan.effectiveAt),
                nextProvider: plan.nextProvider
            })
        );
        bytes memory actual = abi.encode(lens.getPlan(planId));
        if (keccak256(expected) != keccak256(actual)) revert Unexpected("plan", expected, actual);
    }

    function _createUnsoundPlan(uint256 seed, address provider, Terms memory terms) private {
        string memory field;
        uint256 roll = _draw(seed, 8);
        if (roll == 0) (field, terms.token) = ("token", address(0x1234));
        else if (roll == 1) (field, terms.token) = ("token", address(turnpike));
        else if (roll == 2) (field, terms.amount) = ("amount", 0);
        else if (roll == 3) (field, terms.interval) = ("interval", 0);
        else if (roll == 4) (field, terms.grace) = ("grace", terms.months ? terms.interval * 28 days : terms.interval);
        else if (roll == 7) (field, terms.interval, terms.months) = ("interval", 1_201, true);
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
        if (_draw(seed, 5) == 0) return _stop(seed);
        Plan storage plan = plans[_draw(seed, plans.length)];
        Plan storage next = plans[_draw(seed, plans.length)];
        address caller = _draw(seed, 4) == 0 ? providers[_draw(seed, 2)] : plan.provider;
        bytes32 successor = _draw(seed, 2) == 0 ? next.id : bytes32(0);
        bytes memory err;
        if (caller != plan.provider) {
            err = abi.encodeWithSelector(ITurnpike.NotProvider.selector, plan.id, caller);
        } else if (plan.deprecated) {
            err = abi.encodeWithSelector(ITurnpike.PlanDeprecated.selector, plan.id);
        } else if (successor != bytes32(0) && !_isSuccessor(plan, next)) {
            err = abi.encodeWithSelector(ITurnpike.InvalidSuccessor.selector, plan.id, successor);
        } else {
            return _closePlan(plan, successor);
        }
        _sendOfPlan(plan.id, caller, abi.encodeCall(ITurnpike.deprecatePlan, (plan.id, successor)), err);
    }

    /// @dev Mostly a plan that somebody has paid for, who then may leave it.
    function _stop(uint256 seed) private {
        Plan storage plan = _planOf(records[_pickFit(seed, _isPaid)].planId);
        if (plan.id == bytes32(0)) return;
        address caller = _draw(seed, 4) == 0 ? plan.terms.payTo : plan.provider;
        bytes memory err;
        if (caller != plan.provider) {
            err = abi.encodeWithSelector(ITurnpike.NotProvider.selector, plan.id, caller);
        } else if (plan.stopped) {
            err = _closed(plan);
        } else {
            (plan.stopped, plan.deprecated) = (true, true);
        }
        _sendOfPlan(plan.id, caller, abi.encodeCall(ITurnpike.stopPlan, (plan.id)), err);
        for (uint256 i = 0; i < 12 * ids.length && plan.stopped; ++i) {
            bytes32 id = ids[i % ids.length];
            if (records[id].planId == plan.id && _isPaid(id)) _change(seed, id);
        }
    }

    function _isSuccessor(Plan storage plan, Plan storage next) private view returns (bool) {
        bool kin = next.provider == plan.provider && next.terms.token == plan.terms.token;
        return kin && !next.deprecated && next.id != plan.id;
    }

    function _closePlan(Plan storage plan, bytes32 successor) internal {
        (plan.deprecated, plan.successor) = (true, successor);
        bytes memory data = abi.encodeCall(ITurnpike.deprecatePlan, (plan.id, successor));
        _sendOfPlan(plan.id, plan.provider, data, "");
    }

    function _appoint(uint256 seed) private {
        Plan storage plan = plans[_draw(seed, plans.length)];
        uint256 roll = _draw(seed, 8);
        address account =
            roll < 3
                ? issuer
                : roll == 3
                    ? plan.provider
                    : operators[_draw(seed, 2)];
        uint256 given = account == issuer ? VOUCHER : DEBIT;
        if (_draw(seed, 3) == 0) given = _draw(seed, 9);
        if (rights[plan.id][account] != 0 && _draw(seed, 2) == 0) given = 0;
        // Most providers keep theirs, or there would be few debits.
        if (account == plan.provider && _draw(seed, 2) == 0) given = ALL_RIGHTS;
        address caller = _draw(seed, 4) == 0 ? account : plan.provider;
        bytes memory err;
        if (given > ALL_RIGHTS) {
            err = abi.encodeWithSelector(ITurnpike.InvalidTerms.selector, "rights");
        } else if (caller != plan.provider) {
            err = abi.encodeWithSelector(ITurnpike.NotProvider.selector, plan.id, caller);
        } else {
            if (rights[plan.id][account] & ~given != 0) _saw(Premise.RightRevoked);
            rights[plan.id][account] = given;
        }
        _sendOfPlan(plan.id, caller, abi.encodeCall(ITurnpike.setOperator, (plan.id, account, uint8(given))), err);
    }

    // ------------------------------------------------------------------ payees and providers

    /// @notice A payee is proposed, withdrawn or applied, by accounts that may and by others; a plan changes hands.
    function move(uint256 seed) external atClock {
        _move(seed);
        _move(seed);
    }

    function _move(uint256 seed) private {
        Plan storage plan = plans[_draw(seed, plans.length)];
        if (_draw(seed, 2) == 0) {
            // One with a proposal, if there is one.
            for (uint256 i = 0; i < plans.length && plan.proposedPayTo == address(0); ++i) plan = plans[i];
        }
        uint256 roll = _draw(seed, 8);
        if (roll < 3 || (roll < 6 && plan.proposedPayTo == address(0))) _propose(seed, plan);
        else if (roll < 5) _withdraw(seed, plan);
        else if (roll < 7) _apply(seed, plan);
        else _transfer(seed, plan);
    }

    /// @dev The provider, the payee, or one who may not.
    function _somePartner(uint256 seed, Plan storage plan) private returns (address) {
        uint256 roll = _draw(seed, 8);
        if (roll == 0) return STRANGER;
        if (roll == 1) return payees[_draw(seed, 3)];
        if (roll == 2) return providers[_draw(seed, 2)];
        return roll < 5 ? plan.terms.payTo : plan.provider;
    }

    function _expectPartner(Plan storage plan, address caller) private view returns (bytes memory) {
        if (caller == plan.provider || caller == plan.terms.payTo) return "";
        return abi.encodeWithSelector(ITurnpike.NotProvider.selector, plan.id, caller);
    }

    function _propose(uint256 seed, Plan storage plan) private {
        uint256 roll = _draw(seed, 16);
        address payTo = roll < 4 ? plan.provider : payees[_draw(seed, 3)];
        // The other one confirms, at times.
        if (plan.proposedPayTo != address(0) && _draw(seed, 2) == 0) payTo = plan.proposedPayTo;
        if (roll == 14) payTo = address(0);
        if (roll == 15) payTo = address(turnpike);
        bool moved = _proposeTo(plan, _somePartner(seed, plan), payTo);
        if (moved) _useMoved(seed, plan.id);
    }

    function _proposeTo(Plan storage plan, address caller, address payTo) private returns (bool moved) {
        bytes memory err = _expectPartner(plan, caller);
        if (payTo == address(0) || payTo == address(turnpike)) {
            err = abi.encodeWithSelector(ITurnpike.InvalidTerms.selector, "payTo");
        }
        if (err.length == 0) {
            bool byPayee = caller != plan.provider;
            moved = plan.proposedPayTo == payTo && plan.proposedByPayee != byPayee;
            _saw(Premise.PayeeProposed);
            if (moved) _movePayee(plan, payTo);
            else (plan.proposedPayTo, plan.effectiveAt, plan.proposedByPayee) = (payTo, clock + 7 days, byPayee);
        }
        _sendOfPlan(plan.id, caller, abi.encodeCall(ITurnpike.proposePayTo, (plan.id, payTo)), err);
    }

    function _movePayee(Plan storage plan, address payTo) private {
        (plan.terms.payTo, plan.proposedPayTo, plan.effectiveAt) = (payTo, address(0), 0);
        plan.proposedByPayee = false;
    }

    function _expectProposal(Plan storage plan) private view returns (bytes memory) {
        if (plan.proposedPayTo != address(0)) return "";
        return abi.encodeWithSelector(ITurnpike.NotProposed.selector, plan.id);
    }

    function _withdraw(uint256 seed, Plan storage plan) private {
        address caller = _somePartner(seed, plan);
        uint256 effectiveAt = plan.effectiveAt;
        bytes memory err = _expectPartner(plan, caller);
        if (err.length == 0) err = _expectProposal(plan);
        if (err.length == 0) {
            (plan.proposedPayTo, plan.effectiveAt) = (address(0), 0);
            _saw(Premise.PayeeWithdrawn);
        }
        _sendOfPlan(plan.id, caller, abi.encodeCall(ITurnpike.withdrawPayTo, (plan.id)), err);
        if (err.length != 0 || _draw(seed, 2) == 0) return;
        // Later, what was withdrawn cannot be applied.
        if (effectiveAt > clock) clock = effectiveAt;
        _apply(seed, plan);
    }

    /// @dev Often at the very second, or one before it.
    function _apply(uint256 seed, Plan storage plan) private {
        if (plan.effectiveAt > clock && _draw(seed, 3) != 0) clock = plan.effectiveAt - _draw(seed, 2);
        vm.warp(clock);
        bytes memory err = _expectProposal(plan);
        if (err.length == 0 && clock < plan.effectiveAt) {
            err = abi.encodeWithSelector(ITurnpike.TooEarly.selector, plan.id, plan.effectiveAt);
            _saw(Premise.PayeeTooEarly);
        }
        if (err.length == 0) _movePayee(plan, plan.proposedPayTo);
        _sendOfPlan(plan.id, STRANGER, abi.encodeCall(ITurnpike.applyPayTo, (plan.id)), err);
        if (err.length == 0) _useMoved(seed, plan.id);
    }

    /// @dev Most plans are offered back and forth, so that plans of one provider remain.
    function _transfer(uint256 seed, Plan storage plan) private {
        address caller = _draw(seed, 4) == 0 ? providers[_draw(seed, 2)] : plan.provider;
        address next = _draw(seed, 6) == 0 ? address(0) : providers[_draw(seed, 2)];
        bytes memory err;
        if (caller != plan.provider) err = abi.encodeWithSelector(ITurnpike.NotProvider.selector, plan.id, caller);
        else plan.nextProvider = next;
        _sendOfPlan(plan.id, caller, abi.encodeCall(ITurnpike.offerPlan, (plan.id, next)), err);

        if (plan.terms.payTo != plan.provider && _draw(seed, 4) != 0) {
            // Both agree that the provider is its payee first.
            address payee = plan.terms.payTo;
            _proposeTo(plan, payee, plan.provider);
            _proposeTo(plan, plan.provider, plan.provider);
        }
        address taker = _draw(seed, 4) == 0 ? STRANGER : providers[_draw(seed, 2)];
        err = "";
        if (taker != plan.nextProvider) {
            err = abi.encodeWithSelector(ITurnpike.NotProvider.selector, plan.id, taker);
        } else if (plan.terms.payTo != plan.provider) {
            err = abi.encodeWithSelector(ITurnpike.PayeeApart.selector, plan.id, plan.terms.payTo);
        } else {
            rights[plan.id][plan.provider] = 0;
            rights[plan.id][taker] = ALL_RIGHTS;
            (plan.provider, plan.nextProvider) = (taker, address(0));
            _movePayee(plan, taker);
            _saw(Premise.PlanTransferred);
        }
        _sendOfPlan(plan.id, taker, abi.encodeCall(ITurnpike.acceptPlan, (plan.id)), err);
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
