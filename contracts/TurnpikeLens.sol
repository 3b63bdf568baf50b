// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/* solhint-disable no-inline-assembly */

import {
    AllowanceView,
    ITurnpikeLens,
    PlanView,
    SubscriptionState,
    SubscriptionView
} from "./interfaces/ITurnpikeLens.sol";
import {ITurnpike, Terms} from "./interfaces/ITurnpike.sol";
import {Records} from "./Records.sol";
import {Standing} from "./libraries/Standing.sol";
import {
    AllowanceWord,
    NextWord,
    OwnerWord,
    PayeeWord,
    PriceWord,
    ProposalWord,
    SubscriptionWord
} from "./libraries/Words.sol";

/// @title What Turnpike stores, as structs
/// @notice Reads one Turnpike, which created it, by `words`. Keeps nothing: its own storage is empty, and only its
/// layout counts. All answers are of the current block.
contract TurnpikeLens is Records, ITurnpikeLens {
    using Standing for SubscriptionWord;

    /// @inheritdoc ITurnpikeLens
    // solhint-disable-next-line immutable-vars-naming
    ITurnpike public immutable turnpike;

    constructor(ITurnpike turnpike_) {
        turnpike = turnpike_;
    }

    /// @inheritdoc ITurnpikeLens
    function getSubscription(bytes32 idHash) external view returns (SubscriptionView memory) {
        return _state(idHash).subscription;
    }

    /// @inheritdoc ITurnpikeLens
    function getAllowance(bytes32 idHash) external view returns (AllowanceView memory) {
        return _state(idHash).allowance;
    }

    /// @inheritdoc ITurnpikeLens
    function getStates(bytes32[] calldata idHashes) external view returns (SubscriptionState[] memory states) {
        states = new SubscriptionState[](idHashes.length);
        for (uint256 i = 0; i < idHashes.length; ++i) states[i] = _state(idHashes[i]);
    }

    /// @inheritdoc ITurnpikeLens
    function getPlan(bytes32 planId) external view returns (PlanView memory) {
        return _plan(planId);
    }

    /// @inheritdoc ITurnpikeLens
    function getPlans(bytes32[] calldata planIds) external view returns (PlanView[] memory views) {
        views = new PlanView[](planIds.length);
        for (uint256 i = 0; i < planIds.length; ++i) views[i] = _plan(planIds[i]);
    }

    /// @inheritdoc ITurnpikeLens
    function rightsOf(bytes32 planId, address account) external view returns (uint8) {
        bytes32 rights;
        assembly ("memory-safe") {
            rights := _rights.slot
        }
        return uint8(_read(_slotAt(rights, _operatorKey(_indexOf(planId), account)))[0]);
    }

    // ------------------------------------------------------------------ records

    function _state(bytes32 idHash) private view returns (SubscriptionState memory state) {
        uint256[] memory w = _read(_slotsOf(idHash));
        SubscriptionWord s = SubscriptionWord.wrap(w[0]);
        AllowanceWord stored = AllowanceWord.wrap(w[1]);
        // A half whose flag is not set is left over from before.
        NextWord next = NextWord.wrap(w[2]);
        uint40 until = s.isLimited() ? next.until() : 0;
        uint32 nextIndex = s.hasNext() ? next.nextPlanIndex() : 0;

        uint256[] memory plan = _read(_planSlots(s.planIndex()));
        PayeeWord payee = PayeeWord.wrap(plan[1]);
        state.subscription = SubscriptionView({
            idHash: idHash,
            subscriber: s.subscriber(),
            planId: bytes32(plan[3]),
            paidThrough: s.paidThrough(),
            version: s.version(),
            paused: s.isPaused(),
            ending: s.isEnding() || payee.isStopped(),
            cancelled: s.isCancelled(),
            intro: s.isIntro(),
            anchorDay: uint8(s.anchorDay()),
            until: until,
            nextPlanId: _planIdOf(nextIndex),
            status: s.statusAt(payee, until, block.timestamp)
        });
        AllowanceWord a = stored.inCycle(s.paidThrough());
        state.allowance = AllowanceView({
            cap: a.cap(),
            spent: a.spent(),
            remaining: a.remaining(),
            cycle: stored.cycle(),
            debits: a.debits()
        });
    }

    function _plan(bytes32 planId) private view returns (PlanView memory v) {
        v.index = _indexOf(planId);
        if (v.index == 0) return v;
        uint256[] memory w = _read(_planSlots(v.index));
        PriceWord price = PriceWord.wrap(w[0]);
        PayeeWord payee = PayeeWord.wrap(w[1]);
        OwnerWord owner = OwnerWord.wrap(w[2]);
        uint256[] memory move = _read(_moveSlots(v.index));
        ProposalWord proposal = ProposalWord.wrap(move[0]);
        address firstPayTo = address(uint160(move[2]));

        v.planId = planId;
        v.provider = owner.provider();
        v.terms = Terms({
            token: price.token(),
            amount: price.amount(),
            interval: payee.interval(),
            months: payee.isMonthly(),
            grace: payee.grace(),
            payTo: payee.payTo()
        });
        v.deprecated = payee.isDeprecated();
        v.stopped = payee.isStopped();
        v.successor = _planIdOf(owner.successorIndex());
        v.firstPayTo = firstPayTo == address(0) ? payee.payTo() : firstPayTo;
        v.proposedPayTo = proposal.payTo();
        v.effectiveAt = proposal.effectiveAt();
        v.nextProvider = address(uint160(move[1]));
    }

    function _indexOf(bytes32 planId) private view returns (uint32) {
        bytes32 indexes;
        assembly ("memory-safe") {
            indexes := _planIndexOf.slot
        }
        return uint32(_read(_slotAt(indexes, uint256(planId)))[0]);
    }

    function _planIdOf(uint32 index) private view returns (bytes32) {
        return index == 0 ? bytes32(0) : bytes32(_read(_planSlots(index))[3]);
    }

    // ------------------------------------------------------------------ slots

    /// @dev The words of its subscription, its allowance and its next boundary.
    function _slotsOf(bytes32 idHash) private view returns (bytes32[] memory slots) {
        SubscriptionRecord storage subscription = _subscriptions[idHash];
        AllowanceRecord storage allowance = _allowances[idHash];
        (bytes32 first, bytes32 second, bytes32 nexts) = (0, 0, 0);
        assembly ("memory-safe") {
            first := subscription.slot
            second := allowance.slot
            nexts := _nexts.slot
        }
        slots = new bytes32[](3);
        (slots[0], slots[1], slots[2]) = (first, second, _slotAt(nexts, uint256(idHash))[0]);
    }

    function _planSlots(uint32 index) private view returns (bytes32[] memory) {
        PlanRecord storage plan = _plans[index];
        uint256 first;
        assembly ("memory-safe") {
            first := plan.slot
        }
        return _consecutive(first, 4);
    }

    function _moveSlots(uint32 index) private view returns (bytes32[] memory) {
        MoveRecord storage move = _moves[index];
        uint256 first;
        assembly ("memory-safe") {
            first := move.slot
        }
        return _consecutive(first, 3);
    }

    function _consecutive(uint256 first, uint256 count) private pure returns (bytes32[] memory slots) {
        slots = new bytes32[](count);
        for (uint256 i = 0; i < count; ++i) slots[i] = bytes32(first + i);
    }

    /// @dev Where a mapping keeps the value of `key`: there is no pointer to a value that is no struct.
    function _slotAt(bytes32 mappingSlot, uint256 key) private pure returns (bytes32[] memory slots) {
        slots = new bytes32[](1);
        slots[0] = keccak256(abi.encode(key, mappingSlot));
    }

    function _read(bytes32[] memory slots) private view returns (uint256[] memory values) {
        bytes32[] memory found = turnpike.words(slots);
        assembly ("memory-safe") {
            values := found
        }
    }
}
