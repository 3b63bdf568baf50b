// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike, Status, Terms} from "../../contracts/interfaces/ITurnpike.sol";
import {PlanView, SubscriptionState, SubscriptionView} from "../../contracts/interfaces/ITurnpikeLens.sol";
import {Almanac} from "./Almanac.sol";
import {Settlements} from "./acts/Settlements.sol";
import {FickleToken} from "./doubles/FickleToken.sol";
import {vm} from "./Vm.sol";

error LawBroken(uint256 law, string how);

struct FuzzSelector {
    address addr;
    bytes4[] selectors;
}

/// @notice The thirty-five laws, each over random sequences of acts by many parties. An act ends exactly as the model
/// says, or the sequence fails whatever law it was for; what the witness saw against a law fails that law.
/// @dev Where a law tries out much at each step, it takes the records in turn, a few at a time.
abstract contract Laws is Settlements {
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

    /// @dev For each token, six plans of one provider, to move between, two of them in months, of which one is closed
    /// once it has its subscribers; and one of another provider.
    function _seedPlans() private {
        for (uint256 i = 0; i < 14; ++i) {
            uint256 rank = i / 2;
            Terms memory terms = Terms({
                token: i % 2 == 0 ? address(sound) : address(fickle),
                amount: uint96([uint256(1e6), 25e6, 2e6, 3e6, 30e6, 1.5e6, 4e6][rank]),
                interval: uint32([uint256(30 days), 365 days, 90 days, 30 days, 60 days, 1, 3][rank]),
                months: rank > 4,
                grace: uint32([uint256(3 days), 60 days, 10 days, 30 days - 1, 6 days, 3 days, 27 days][rank]),
                payTo: payees[rank == 3 ? 1 : 0]
            });
            _createPlan(providers[rank == 3 ? 1 : 0], terms, bytes32(i), '{"name":"test"}');
        }
        for (uint256 i = 0; i < 16; ++i) this.subscribe(i);
        for (uint256 i = 0; i < ids.length; i += 2) {
            Plan storage plan = _planOf(records[ids[i]].planId);
            bytes32 target = plans[plan.terms.token == address(sound) ? 8 : 9].id;
            if (plan.provider == providers[0] && plan.id != target) _schedule(ids[i], target);
        }
        _closePlan(plans[8], plans[0].id);
        _closePlan(plans[9], bytes32(0));
    }

    function targetContracts() external view returns (address[] memory targets) {
        targets = new address[](1);
        targets[0] = address(this);
    }

    function targetSelectors() external view returns (FuzzSelector[] memory targets) {
        bytes4[22] memory acts = [
            this.pass.selector,
            this.subscribe.selector,
            this.subscribeSigned.selector,
            this.subscribeOffered.selector,
            this.annul.selector,
            this.setNext.selector,
            this.move.selector,
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
        for (uint256 law = 1; law <= 35; ++law) _uphold(law);
        SubscriptionState[] memory states = lens.getStates(ids);
        for (uint256 i = 0; i < ids.length; ++i) _settleUp(ids[i], states[i]);
        for (uint256 i = 0; i < plans.length; ++i)
            _hold(22, _planRowAgrees(plans[i].id), "a plan differs from its events");
        _hold(22, _replayAgrees(0, 1), "the state differs from its events");
        _reportPremises();
    }

    function _uphold(uint256 law) internal view {
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
        for (uint256 i = 0; i < payees.length + providers.length; ++i) {
            address payee = i < payees.length ? payees[i] : providers[i - payees.length];
            _hold(2, sound.balanceOf(payee) == owed[address(sound)][payee], "a payee's balance");
            onFickle += fickle.trueBalanceOf(payee);
            owedOnFickle += owed[address(fickle)][payee];
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

    /// L5 Charges <= periods begun since the start, by the calendar for months, plan changes aside.
    function invariant_L05_no_more_charges_than_periods() external view {
        _uphold(5);
        for (uint256 i = 1; i <= lifeCount; ++i) {
            Life storage life = lives[i];
            uint256 begun = _begun(life.since, _planOf(life.planId).terms);
            _hold(5, life.charges <= begun, "more charges than periods begun");
        }
    }

    /// L6 After a lapse one call charges one period, and none that is wholly past.
    function invariant_L06_no_arrears_after_a_lapse() external view {
        _uphold(6);
    }

    /// L7 Charged amount, token and payTo equal the plan agreed to, also by a scheduled change; a voucher's first amount
    /// and a plan change's A - C aside.
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
            _hold(9, lens.getAllowance(ids[i]).spent == life.debited, "spent differs from this cycle's debits");
        }
    }

    /// L10 A debit index succeeds once.
    function invariant_L10_a_debit_index_succeeds_once() external view {
        _uphold(10);
        for (uint256 i = 0; i < ids.length; ++i) {
            if (tombstone[ids[i]]) continue;
            _hold(10, lens.getAllowance(ids[i]).debits == lives[lifeOf[ids[i]]].debits, "a debit went uncounted");
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
        SubscriptionView memory s = lens.getSubscription(id);
        uint256 before = sound.balanceOf(s.subscriber) + fickle.trueBalanceOf(s.subscriber);
        bytes32[] memory batch = _one(id);
        turnpike.renewBatch(batch);
        _attempt(STRANGER, abi.encodeCall(ITurnpike.renew, (id)));
        _attempt(_planOf(s.planId).provider, abi.encodeCall(ITurnpike.debit, (id, 1, lens.getAllowance(id).debits)));
        _attempt(s.subscriber, abi.encodeCall(ITurnpike.resume, (id, type(uint256).max, _unsigned())));
        for (uint256 i = 0; i < plans.length; ++i) {
            _attempt(
                s.subscriber,
                abi.encodeCall(ITurnpike.changePlan, (id, plans[i].id, 1, type(uint256).max, _unsigned()))
            );
        }
        uint256 left = sound.balanceOf(s.subscriber) + fickle.trueBalanceOf(s.subscriber);
        _hold(11, left == before, "a cancelled subscription was charged");
    }

    function _attempt(address caller, bytes memory data) private returns (bool ok) {
        vm.prank(caller);
        (ok, ) = address(turnpike).call(data);
    }

    /// L12 Only the subscriber or its valid unused signature creates, resumes, raises, moves or changes a subscription;
    /// the provider can only end it at the period's end, or all of a plan's.
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
            bool stopped = planRows[life.planId].stopped;
            bool bounded = life.ending || stopped || (life.until != 0 && clock >= life.until);
            if (!bounded || clock < life.paidThrough) continue;
            _hold(13, turnpike.statusOf(ids[i]) == Status.CANCELLED, "an ended record came to life");
        }
    }

    /// L14 A deprecated plan gains no record, no move but one that was scheduled before, no payment back in.
    function invariant_L14_a_deprecated_plan_gains_nothing() external {
        _uphold(14);
        vm.warp(clock);
        for (uint256 i = 0; i < plans.length; ++i) {
            if (!plans[i].deprecated) continue;
            bytes32 secretHash = keccak256(abi.encode("late", step));
            bool joined = _attempt(BYSTANDER, _signupOf(BYSTANDER, plans[i].id, secretHash));
            _hold(14, !joined && lens.getPlan(plans[i].id).deprecated, "a deprecated plan opened again");
        }
    }

    /// L15 Terms never change, but for the payee.
    function invariant_L15_terms_never_change() external view {
        _uphold(15);
        bytes32[] memory planIds = new bytes32[](plans.length);
        for (uint256 i = 0; i < plans.length; ++i) planIds[i] = plans[i].id;
        PlanView[] memory views = lens.getPlans(planIds);
        for (uint256 i = 0; i < plans.length; ++i) {
            Plan storage plan = plans[i];
            PlanView memory v = views[i];
            v.terms.payTo = v.firstPayTo;
            bytes32 metadata = keccak256(bytes(plan.metadata));
            bytes32 proven = keccak256(
                abi.encode(block.chainid, address(turnpike), plan.firstProvider, v.terms, plan.salt, metadata)
            );
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
            if (lifeOf[ids[i]] == 0) continue; // voided
            Life storage life = lives[lifeOf[ids[i]]];
            Terms storage terms = _planOf(life.planId).terms;
            for (uint256 k = 0; k < 3; ++k) {
                _holdStatus(ids[i], life, life.paidThrough + k - 1);
                _holdStatus(ids[i], life, life.paidThrough + terms.grace + k - 1);
                _holdStatus(ids[i], life, _boundaryOf(life) + k - 1);
                if (life.until != 0) _holdStatus(ids[i], life, life.until + k - 1);
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
        bool stopped = planRows[life.planId].stopped;
        bool bounded = life.ending || stopped || (life.until != 0 && t >= life.until);
        bool ended = tombstone[id] || (bounded && t >= life.paidThrough);
        if (ended) return _hold(19, status == Status.CANCELLED, "ended, and not CANCELLED");
        if (rows[id].paused) return _hold(19, status == Status.PAUSED, "paused, and not PAUSED");
        bool served = t < life.paidThrough + terms.grace;
        _hold(19, served == (status == Status.ACTIVE), "served is not what was paid, and its grace");
        bool collectable = t < _boundaryOf(life);
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

    /// L23 Liveness: due, funded, approved, not paused or ending, no plan stopped: renew succeeds; cancel always does.
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
            _hold(
                23,
                _attempt(r.subscriber, abi.encodeCall(ITurnpike.cancel, (ids[i], false, _unsigned()))),
                "cancel was refused"
            );
            fickle.setFault(FickleToken.Fault.None);
        }
    }

    /// L24 Each EIP-3009 authorization moves funds at most once, to the signed recipient, in the signed amount.
    function invariant_L24_an_authorization_moves_once() external view {
        _uphold(24);
    }

    /// L25 Boundaries in months equal a calendar's, counted from the anchor.
    function invariant_L25_boundaries_are_the_calendars() external view {
        _uphold(25);
        for (uint256 i = 0; i < ids.length; ++i) {
            Life storage life = lives[lifeOf[ids[i]]];
            if (tombstone[ids[i]] || life.anchor == 0) continue;
            uint256 day = Almanac.dayOf(life.anchorMonth + life.months, life.anchor);
            SubscriptionView memory s = lens.getSubscription(ids[i]);
            _hold(25, s.paidThrough == day * 1 days + life.timeOfDay, "paidThrough is no boundary of the anchor");
        }
    }

    /// L26 No later collection ends on an earlier date.
    function invariant_L26_later_is_never_shorter() external {
        _uphold(26);
        fickle.setFault(FickleToken.Fault.None);
        for (uint256 i = step % 8; i < ids.length; i += 8) {
            Record storage r = records[ids[i]];
            if (_statusAt(r, clock) == Status.CANCELLED || r.ending || r.paused) continue;
            if (!_isFunded(r) || _planOf(_nextPlanOf(r)).deprecated) continue;
            (uint256 span, uint256 dice) = (
                2 * (_boundaryOf(r) - r.paidThrough),
                uint256(keccak256(abi.encode(step, i)))
            );
            uint256 first = r.paidThrough + (dice % span);
            if (first < clock) first = clock;
            // Days apart, or up to two periods.
            dice >>= 128;
            uint256 later = first + 1 + (dice % (dice & 1 == 0 ? 3 days : span));
            uint256 end = _collectedAt(ids[i], r, first);
            uint256 laterEnd = _collectedAt(ids[i], r, later);
            if (end == 0 || laterEnd == 0) continue;
            _hold(26, laterEnd / 1 days >= end / 1 days, "a later collection ends on an earlier date");
        }
        vm.warp(clock);
    }

    /// @dev The end of the period that a renewal or a resumption at `t` charges, undone again; 0: neither is possible.
    function _collectedAt(bytes32 id, Record storage r, uint256 t) private returns (uint256 end) {
        uint256 snapshot = vm.snapshotState();
        vm.warp(t);
        bool ok =
            turnpike.statusOf(id) == Status.EXPIRED
                ? _attempt(r.subscriber, abi.encodeCall(ITurnpike.resume, (id, type(uint256).max, _unsigned())))
                : _attempt(STRANGER, abi.encodeCall(ITurnpike.renew, (id)));
        if (ok) end = lens.getSubscription(id).paidThrough;
        vm.revertToStateAndDelete(snapshot);
    }

    /// L27 From the subscriber's end on only debits before paidThrough; only the subscriber moves the end.
    function invariant_L27_the_end_holds() external {
        _uphold(27);
        fickle.setFault(FickleToken.Fault.None);
        for (uint256 i = step % 4; i < ids.length; i += 4) {
            Life storage life = lives[lifeOf[ids[i]]];
            if (life.until == 0 || tombstone[ids[i]]) continue;
            // From the end on, while it is paid and after.
            _tryAllAt(ids[i], life.until > clock ? life.until : clock);
            uint256 over = life.until > life.paidThrough ? life.until : life.paidThrough;
            _tryAllAt(ids[i], over > clock ? over : clock);
        }
        vm.warp(clock);
    }

    function _tryAllAt(bytes32 id, uint256 t) private {
        vm.warp(t);
        SubscriptionView memory s = lens.getSubscription(id);
        uint256 before = sound.balanceOf(s.subscriber) + fickle.trueBalanceOf(s.subscriber);
        _attempt(STRANGER, abi.encodeCall(ITurnpike.renew, (id)));
        _attempt(s.subscriber, abi.encodeCall(ITurnpike.resume, (id, type(uint256).max, _unsigned())));
        for (uint256 i = 0; i < plans.length; ++i) {
            _attempt(
                s.subscriber,
                abi.encodeCall(ITurnpike.changePlan, (id, plans[i].id, 1, type(uint256).max, _unsigned()))
            );
        }
        uint256 debits = lens.getAllowance(id).debits;
        if (t >= s.paidThrough) {
            _attempt(_planOf(s.planId).provider, abi.encodeCall(ITurnpike.debit, (id, 1, debits)));
        }
        uint256 left = sound.balanceOf(s.subscriber) + fickle.trueBalanceOf(s.subscriber);
        _hold(27, left == before, "charged after the subscriber's end");
    }

    /// L28 A scheduled change applies once, at the next charged period, unless it is dropped or a plan is stopped.
    function invariant_L28_a_change_applies_once() external view {
        _uphold(28);
        for (uint256 i = 0; i < ids.length; ++i) {
            if (tombstone[ids[i]]) continue;
            SubscriptionView memory s = lens.getSubscription(ids[i]);
            Life storage life = lives[lifeOf[ids[i]]];
            _hold(28, s.nextPlanId == life.nextPlanId && s.planId == life.planId, "a change came or went by itself");
        }
    }

    /// L29 A first charge is at most the price; less only by the plan's signer, for this subscriber and secret.
    function invariant_L29_only_a_voucher_lowers_the_first_charge() external view {
        _uphold(29);
    }

    /// L30 An introduction gives no credit.
    function invariant_L30_an_introduction_gives_no_credit() external {
        _uphold(30);
        vm.warp(clock);
        for (uint256 i = 0; i < ids.length; ++i) {
            Life storage life = lives[lifeOf[ids[i]]];
            if (tombstone[ids[i]] || !life.intro) continue;
            bytes32 newPlanId = plans[(step + i) % plans.length].id;
            try turnpike.quoteChange(ids[i], newPlanId) returns (uint256 charge, uint256 credit) {
                bool full = credit == 0 && charge == _planOf(newPlanId).terms.amount;
                _hold(30, full, "an introduction was credited");
            } catch {}
        }
    }

    /// L31 The payee becomes only what was proposed seven days ago or more, and not withdrawn; or, at once, what provider
    /// and payee both propose, or the next provider of a plan whose provider was its payee.
    function invariant_L31_a_payee_moves_slowly() external view {
        _uphold(31);
        for (uint256 i = 0; i < plans.length; ++i) {
            PlanView memory v = lens.getPlan(plans[i].id);
            _hold(31, v.terms.payTo == planRows[plans[i].id].terms.payTo, "a payee moved without its event");
        }
    }

    /// L32 A voided idHash never signs up.
    function invariant_L32_a_voided_id_never_signs_up() external {
        _uphold(32);
        vm.warp(clock);
        for (uint256 i = 0; i < voids.length; ++i) {
            Record storage r = records[voids[i]];
            bytes32 secretHash = secretHashOf[voids[i]];
            bytes32 planId = plans[(step + i) % plans.length].id;
            bool joined = _attempt(r.subscriber, _signupOf(r.subscriber, planId, secretHash));
            for (uint256 k = 0; k < ids.length; k += 5) {
                joined =
                    joined ||
                    _attempt(r.subscriber, abi.encodeCall(ITurnpike.rekey, (ids[k], secretHash, _unsigned())));
            }
            _hold(32, !joined && turnpike.statusOf(voids[i]) == Status.CANCELLED, "a voided idHash came to life");
        }
    }

    /// L33 Charged terms are those signed.
    function invariant_L33_charged_as_signed() external view {
        _uphold(33);
    }

    /// L34 A record without flags reads no further word: two for its status, three to renew, five to debit.
    function invariant_L34_plain_records_read_no_further_word() external {
        _uphold(34);
        fickle.setFault(FickleToken.Fault.None);
        for (uint256 i = step % 4; i < ids.length; i += 4) {
            bytes32 id = ids[i];
            Life storage life = lives[lifeOf[id]];
            bool bounded = life.ending || life.until != 0 || rows[id].paused || life.nextPlanId != bytes32(0);
            if (lifeOf[id] == 0 || tombstone[id] || bounded) continue;
            vm.warp(clock);
            vm.record();
            turnpike.statusOf(id);
            _hold(34, _wordsRead() == 2, "a status read a further word");
            vm.record();
            address provider = _planOf(life.planId).provider;
            _attempt(provider, abi.encodeCall(ITurnpike.debit, (id, 1, life.debits)));
            _hold(34, _wordsRead() <= 5, "a debit read a further word");
            if (clock < life.paidThrough) vm.warp(life.paidThrough);
            vm.record();
            _attempt(STRANGER, abi.encodeCall(ITurnpike.renew, (id)));
            _hold(34, _wordsRead() <= 3, "a renewal read a further word");
        }
        vm.warp(clock);
    }

    /// L35 From the stop of a plan on nothing is charged on it, and its records end with the period that is paid.
    function invariant_L35_a_stopped_plan_charges_nothing() external {
        _uphold(35);
        fickle.setFault(FickleToken.Fault.None);
        for (uint256 i = step % 4; i < ids.length; i += 4) {
            bytes32 id = ids[i];
            Life storage life = lives[lifeOf[id]];
            if (lifeOf[id] == 0 || tombstone[id] || !planRows[life.planId].stopped) continue;
            vm.warp(clock);
            _hold(35, turnpike.statusOf(id) != Status.PAST_DUE, "a stopped record can be collected");
            uint256 before = sound.balanceOf(rows[id].subscriber) + fickle.trueBalanceOf(rows[id].subscriber);
            for (uint256 k = 0; k < 3; ++k) {
                uint256 t = [life.paidThrough - 1, life.paidThrough, _boundaryOf(life)][k];
                if (t < clock) continue;
                vm.warp(t);
                _attempt(STRANGER, abi.encodeCall(ITurnpike.renew, (id)));
                address provider = _planOf(life.planId).provider;
                _attempt(provider, abi.encodeCall(ITurnpike.debit, (id, 1, life.debits)));
                bytes memory resume = abi.encodeCall(ITurnpike.resume, (id, type(uint256).max, _unsigned()));
                if (t >= life.paidThrough) _attempt(rows[id].subscriber, resume);
                bool ended = t >= life.paidThrough;
                _hold(35, ended == (turnpike.statusOf(id) == Status.CANCELLED), "not until the paid period's end");
            }
            uint256 left = sound.balanceOf(rows[id].subscriber) + fickle.trueBalanceOf(rows[id].subscriber);
            _hold(35, left == before, "a stopped plan charged");
        }
        vm.warp(clock);
    }

    function _wordsRead() private returns (uint256 count) {
        (bytes32[] memory reads, ) = vm.accesses(address(turnpike));
        for (uint256 i = 0; i < reads.length; ++i) {
            bool seen = false;
            for (uint256 k = 0; k < i; ++k) seen = seen || reads[k] == reads[i];
            if (!seen) ++count;
        }
    }
}
