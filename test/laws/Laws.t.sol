// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {
    ITurnpike,
    PlanView,
    Status,
    SubscriptionState,
    SubscriptionView,
    Terms
} from "../../contracts/interfaces/ITurnpike.sol";
import {Settlements} from "./acts/Settlements.sol";
import {FickleToken} from "./doubles/FickleToken.sol";
import {vm} from "./Vm.sol";

error LawBroken(uint256 law, string how);

struct FuzzSelector {
    address addr;
    bytes4[] selectors;
}

/// @notice The twenty-four laws, each over random sequences of acts by many parties. An act ends exactly as the model
/// says, or the sequence fails whatever law it was for; what the witness saw against a law fails that law.
/// @dev Where a law tries out much at each step, it takes the records in turn, a few at a time.
contract Laws is Settlements {
    function setUp() external {
        _build();
        for (uint256 i = 0; i < subscribers.length; ++i) _mirror(subscribers[i].self);
        _mirror(BYSTANDER);
        _seedPlans();
    }

    function _mirror(address account) private {
        address[2] memory tokens = [address(sound), address(fickle)];
        for (uint256 i = 0; i < 2; ++i) {
            balances[tokens[i]][account] = MUCH;
            approvals[tokens[i]][account] = type(uint256).max;
        }
    }

    /// @dev For each token, four plans of one provider and payee, to move between, of which the last is closed once it
    /// has its subscribers; and one of another provider.
    function _seedPlans() private {
        for (uint256 i = 0; i < 10; ++i) {
            uint256 rank = i / 2;
            Terms memory terms = Terms({
                token: i % 2 == 0 ? address(sound) : address(fickle),
                amount: uint96([uint256(1e6), 25e6, 2e6, 3e6, 30e6][rank]),
                interval: uint32([uint256(30 days), 365 days, 90 days, 30 days, 60 days][rank]),
                grace: uint32([uint256(3 days), 0, 10 days, 30 days - 1, 6 days][rank]),
                payTo: payees[rank == 3 ? 1 : 0]
            });
            _createPlan(providers[rank == 3 ? 1 : 0], terms, bytes32(i), '{"name":"test"}');
        }
        for (uint256 i = 0; i < 14; ++i) this.subscribe(i);
        _closePlan(plans[8], plans[0].id);
        _closePlan(plans[9], bytes32(0));
    }

    function targetContracts() external view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(this);
    }

    function targetSelectors() external view returns (FuzzSelector[] memory targets) {
        bytes4[18] memory acts = [
            this.pass.selector,
            this.subscribe.selector,
            this.subscribeBySig.selector,
            this.pause.selector,
            this.resume.selector,
            this.depart.selector,
            this.setMaxOverage.selector,
            this.changePlan.selector,
            this.replay.selector,
            this.renewAndPause.selector,
            this.renew.selector,
            this.renewBatch.selector,
            this.debit.selector,
            this.debitBatch.selector,
            this.settle.selector,
            this.provide.selector,
            this.fund.selector,
            this.upset.selector
        ];
        targets = new FuzzSelector[](1);
        targets[0].addr = address(this);
        targets[0].selectors = new bytes4[](acts.length);
        for (uint256 i = 0; i < acts.length; ++i) targets[0].selectors[i] = acts[i];
    }

    /// @dev At the end of each sequence, whichever law it was for: what the witness saw against any law; everything,
    /// against the model and against itself; and what it came across.
    function afterInvariant() external atClock {
        for (uint256 law = 1; law <= 24; ++law) _uphold(law);
        SubscriptionState[] memory states = turnpike.getStates(ids);
        for (uint256 i = 0; i < ids.length; ++i) _settleUp(ids[i], states[i]);
        for (uint256 i = 0; i < plans.length; ++i)
            _hold(22, _planRowAgrees(plans[i].id), "a plan differs from its events");
        _hold(22, _replayAgrees(0, 1), "the state differs from its events");
        _reportPremises();
    }

    function _uphold(uint256 law) private view {
        if (bytes(breaches[law]).length != 0) revert LawBroken(law, breaches[law]);
    }

    function _hold(uint256 law, bool holds, string memory how) private pure {
        if (!holds) revert LawBroken(law, how);
    }

    // ------------------------------------------------------------------ the laws

    /// L1 Turnpike and BatchSettler never receive tokens by their own calls.
    function invariant_L01_contracts_hold_nothing() external view {
        _uphold(1);
        _hold(1, sound.balanceOf(address(turnpike)) + sound.balanceOf(address(settler)) == 0, "sound tokens");
        _hold(
            1,
            fickle.trueBalanceOf(address(turnpike)) + fickle.trueBalanceOf(address(settler)) == 0,
            "fickle tokens"
        );
    }

    /// L2 Sent to payTo = the sum of all successful charges and debits.
    function invariant_L02_payees_get_what_was_charged() external view {
        uint256 onFickle = fickle.trueBalanceOf(fickle.FEE_SINK());
        uint256 owedOnFickle;
        for (uint256 i = 0; i < payees.length; ++i) {
            _hold(2, sound.balanceOf(payees[i]) == owed[address(sound)][payees[i]], "a payee's balance");
            onFickle += fickle.trueBalanceOf(payees[i]);
            owedOnFickle += owed[address(fickle)][payees[i]];
        }
        _hold(2, onFickle == owedOnFickle, "payees and fees on the token that takes a fee");
    }

    /// L3 At most one charge per subscription and period.
    function invariant_L03_at_most_one_charge_per_period() external view {
        _uphold(3);
    }

    /// L4 No charge before due (a plan change aside); paidThrough grows on renewal and never moves on failure.
    function invariant_L04_no_charge_before_due() external view {
        _uphold(4);
    }

    /// L5 Charges <= 1 + floor((now - start) / interval), plan changes aside.
    function invariant_L05_no_more_charges_than_periods() external view {
        _uphold(5);
        for (uint256 i = 1; i <= lifeCount; ++i) {
            Life storage life = lives[i];
            uint256 periods = (clock - life.since) / _planOf(life.planId).terms.interval;
            _hold(5, life.charges <= 1 + periods, "more charges than periods begun");
        }
    }

    /// L6 After a lapse one call charges one period, and none that is wholly past.
    function invariant_L06_no_arrears_after_a_lapse() external view {
        _uphold(6);
    }

    /// L7 Charged amount, token and payTo equal the plan agreed to; a plan change charges A - C.
    function invariant_L07_charged_as_agreed() external view {
        _uphold(7);
    }

    /// L8 Debits in a cycle <= the cap in force at each debit.
    function invariant_L08_debits_stay_below_the_cap() external view {
        _uphold(8);
    }

    /// L9 A new cycle starts with nothing spent.
    function invariant_L09_a_cycle_starts_unspent() external view {
        _uphold(9);
        for (uint256 i = 0; i < ids.length; ++i) {
            Life storage life = lives[lifeOf[ids[i]]];
            if (tombstone[ids[i]]) continue;
            _hold(9, turnpike.getAllowance(ids[i]).spent == life.debited, "spent differs from this cycle's debits");
        }
    }

    /// L10 A debit index succeeds once.
    function invariant_L10_a_debit_index_succeeds_once() external view {
        _uphold(10);
        for (uint256 i = 0; i < ids.length; ++i) {
            if (tombstone[ids[i]]) continue;
            _hold(10, turnpike.getAllowance(ids[i]).debits == lives[lifeOf[ids[i]]].debits, "a debit went uncounted");
        }
    }

    /// L11 After an immediate cancel nothing moves that subscriber's funds for it; while ending, only debits up to p.
    function invariant_L11_nothing_moves_after_the_end() external {
        _uphold(11);
        vm.warp(clock);
        fickle.setFault(FickleToken.Fault.None);
        for (uint256 i = step % 4; i < tombstones.length; i += 4) _tryAll(tombstones[i]);
    }

    /// @dev Every selector that could charge, by the accounts that have the right to it.
    function _tryAll(bytes32 id) private {
        SubscriptionView memory s = turnpike.getSubscription(id);
        uint256 before = sound.balanceOf(s.subscriber) + fickle.trueBalanceOf(s.subscriber);
        bytes32[] memory batch = _one(id);
        turnpike.renewBatch(batch);
        _attempt(STRANGER, abi.encodeCall(ITurnpike.renew, (id)));
        _attempt(
            _planOf(s.planId).provider,
            abi.encodeCall(ITurnpike.debit, (id, 1, turnpike.getAllowance(id).debits))
        );
        _attempt(s.subscriber, abi.encodeCall(ITurnpike.resume, (id, type(uint256).max)));
        for (uint256 i = 0; i < plans.length; ++i) {
            _attempt(s.subscriber, abi.encodeCall(ITurnpike.changePlan, (id, plans[i].id, 1, type(uint256).max)));
        }
        uint256 left = sound.balanceOf(s.subscriber) + fickle.trueBalanceOf(s.subscriber);
        _hold(11, left == before, "a cancelled subscription was charged");
    }

    function _attempt(address caller, bytes memory data) private returns (bool ok) {
        vm.prank(caller);
        (ok, ) = address(turnpike).call(data);
    }

    /// L12 Only the subscriber or its valid unused signature creates, resumes, raises, moves or changes a subscription;
    /// the provider can only end it at the period's end.
    function invariant_L12_only_the_subscriber_changes_it() external view {
        _uphold(12);
    }

    /// L13 Versions and idHashes are never used again; CANCELLED never becomes ACTIVE.
    function invariant_L13_the_dead_stay_dead() external {
        _uphold(13);
        vm.warp(clock);
        for (uint256 i = 0; i < tombstones.length; ++i) {
            _hold(13, turnpike.statusOf(tombstones[i]) == Status.CANCELLED, "a tombstone came to life");
        }
        for (uint256 i = 0; i < ids.length; ++i) {
            Life storage life = lives[lifeOf[ids[i]]];
            if (!life.ending || clock < life.paidThrough) continue;
            _hold(13, turnpike.statusOf(ids[i]) == Status.CANCELLED, "an ended record came to life");
        }
    }

    /// L14 A deprecated plan gains no record, no move, no payment back in.
    function invariant_L14_a_deprecated_plan_gains_nothing() external {
        _uphold(14);
        vm.warp(clock);
        for (uint256 i = 0; i < plans.length; ++i) {
            if (!plans[i].deprecated) continue;
            bytes32 secretHash = keccak256(abi.encode("late", step));
            bool joined = _attempt(STRANGER, abi.encodeCall(ITurnpike.subscribe, (plans[i].id, secretHash, 0)));
            _hold(14, !joined && turnpike.getPlan(plans[i].id).deprecated, "a deprecated plan opened again");
        }
    }

    /// L15 Terms never change.
    function invariant_L15_terms_never_change() external view {
        _uphold(15);
        bytes32[] memory planIds = new bytes32[](plans.length);
        for (uint256 i = 0; i < plans.length; ++i) planIds[i] = plans[i].id;
        PlanView[] memory views = turnpike.getPlans(planIds);
        for (uint256 i = 0; i < plans.length; ++i) {
            Plan storage plan = plans[i];
            PlanView memory v = views[i];
            bytes32 proven = keccak256(abi.encode(v.provider, v.terms, plan.salt, keccak256(bytes(plan.metadata))));
            _hold(15, proven == plan.id && v.planId == plan.id && v.index == i + 1, "not the terms that planId proves");
        }
    }

    /// L16 A batch with sufficient gas equals the same singles with failures skipped.
    function invariant_L16_a_batch_equals_its_singles() external view {
        _uphold(16);
    }

    /// L17 A failed item leaves storage byte-identical and moves nothing.
    function invariant_L17_a_failed_item_leaves_no_trace() external view {
        _uphold(17);
    }

    /// L18 Gas per item is bounded for any token or wallet.
    function invariant_L18_gas_per_item_is_bounded() external view {
        _uphold(18);
    }

    /// L19 The status view agrees with the charge history at every timestamp.
    function invariant_L19_status_agrees_with_the_charges() external {
        _uphold(19);
        for (uint256 i = step % 4; i < ids.length; i += 4) {
            Life storage life = lives[lifeOf[ids[i]]];
            Terms storage terms = _planOf(life.planId).terms;
            for (uint256 k = 0; k < 3; ++k) {
                _holdStatus(ids[i], life, life.paidThrough + k - 1);
                _holdStatus(ids[i], life, life.paidThrough + terms.grace + k - 1);
                _holdStatus(ids[i], life, life.paidThrough + terms.interval + k - 1);
            }
            _holdStatus(ids[i], life, clock);
        }
        vm.warp(clock);
    }

    /// @dev By what was paid and agreed, not by what is stored: served while paid, and for a grace after.
    function _holdStatus(bytes32 id, Life storage life, uint256 t) private {
        Terms storage terms = _planOf(life.planId).terms;
        vm.warp(t);
        Status status = turnpike.statusOf(id);
        bool ended = tombstone[id] || (life.ending && t >= life.paidThrough);
        if (ended) return _hold(19, status == Status.CANCELLED, "ended, and not CANCELLED");
        if (rows[id].paused) return _hold(19, status == Status.PAUSED, "paused, and not PAUSED");
        bool served = t < life.paidThrough + terms.grace;
        _hold(19, served == (status == Status.ACTIVE), "served is not what was paid, and its grace");
        bool collectable = t < life.paidThrough + terms.interval;
        if (!served) _hold(19, collectable == (status == Status.PAST_DUE), "PAST_DUE is not the rest of the interval");
        if (!served && !collectable) _hold(19, status == Status.EXPIRED, "neither served nor due, and not EXPIRED");
    }

    /// L20 Acting on one subscription never changes another's record.
    function invariant_L20_no_act_touches_another_record() external view {
        _uphold(20);
    }

    /// L21 Only subscribers who signed or called lose tokens, never more than price + cap per cycle.
    function invariant_L21_only_those_who_agreed_pay() external view {
        _uphold(21);
        _hold(21, sound.balanceOf(BYSTANDER) == MUCH, "a bystander paid");
        _hold(21, fickle.trueBalanceOf(BYSTANDER) == MUCH, "a bystander paid");
        for (uint256 i = 1; i <= lifeCount; ++i) {
            Life storage life = lives[i];
            Terms storage terms = _planOf(life.planId).terms;
            _hold(21, life.paid + life.debited <= terms.amount + life.highestCap, "more than price + cap in a cycle");
        }
    }

    /// L22 Replaying the events rebuilds the state.
    function invariant_L22_events_rebuild_the_state() external {
        _uphold(22);
        vm.warp(clock);
        _hold(22, rowIds.length == ids.length, "a record without its event");
        _hold(22, _replayAgrees(step % 4, 4), "the state differs from its events");
        _hold(22, _planRowAgrees(plans[step % plans.length].id), "a plan differs from its events");
    }

    /// L23 Liveness: due, funded, approved, not paused or ending: renew succeeds; cancel always does.
    function invariant_L23_renew_and_cancel_succeed() external {
        _uphold(23);
        vm.warp(clock);
        for (uint256 i = step % 8; i < ids.length; i += 8) {
            Record storage r = records[ids[i]];
            if (turnpike.statusOf(ids[i]) == Status.CANCELLED) continue;
            if (_isDue(r) && _isFunded(r) && _tokenWorks(r)) {
                fickle.setEcho(ids[i]);
                _hold(23, _attempt(STRANGER, abi.encodeCall(ITurnpike.renew, (ids[i]))), "a due renewal was refused");
            }
            fickle.setFault(FickleToken.Fault.BurnsGasBlind);
            _hold(23, _attempt(r.subscriber, abi.encodeCall(ITurnpike.cancel, (ids[i], false))), "cancel was refused");
            fickle.setFault(FickleToken.Fault.None);
        }
    }

    /// L24 Each EIP-3009 authorization moves funds at most once, to the signed recipient, in the signed amount.
    function invariant_L24_an_authorization_moves_once() external view {
        _uphold(24);
    }
}
