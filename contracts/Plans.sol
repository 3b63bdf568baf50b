// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike, PlanView, Terms} from "./interfaces/ITurnpike.sol";
import {Ledger} from "./Ledger.sol";
import {OwnerWord, PayeeWord, PlanWords} from "./libraries/Words.sol";

/// @title Plans: immutable terms, their operators and their end
abstract contract Plans is Ledger {
    // ------------------------------------------------------------------ create

    /// @inheritdoc ITurnpike
    function createPlan(
        Terms calldata terms,
        bytes32 salt,
        string calldata metadata
    ) external returns (bytes32 planId) {
        _requireSound(terms);
        planId = keccak256(abi.encode(msg.sender, terms, salt, keccak256(bytes(metadata))));
        if (_planIndexOf[planId] != 0) revert PlanExists(planId);

        uint32 index = ++_planCount;
        _planIndexOf[planId] = index;
        PlanRecord storage plan = _plans[index];
        plan.price = PlanWords.packPrice(terms.token, terms.amount);
        plan.payee = PlanWords.packPayee(terms.payTo, terms.interval, terms.grace);
        plan.owner = PlanWords.packOwner(msg.sender, 0);
        plan.planId = planId;
        _operators[_operatorKey(index, msg.sender)] = true;

        emit PlanCreated(planId, msg.sender, index, terms, salt, metadata);
        emit OperatorSet(planId, msg.sender, true);
    }

    // ------------------------------------------------------------------ use

    /// @inheritdoc ITurnpike
    function setOperator(bytes32 planId, address operator, bool allowed) external {
        (uint32 index, ) = _ownPlan(planId);
        _operators[_operatorKey(index, operator)] = allowed;
        emit OperatorSet(planId, operator, allowed);
    }

    // ------------------------------------------------------------------ end

    /// @inheritdoc ITurnpike
    function deprecatePlan(bytes32 planId, bytes32 successor) external {
        (, PlanRecord storage plan) = _ownPlan(planId);
        PayeeWord payee = plan.payee;
        if (payee.isDeprecated()) revert PlanDeprecated(planId);

        plan.payee = payee.asDeprecated();
        if (successor != bytes32(0)) {
            // The plan itself is deprecated by now, and so no successor of its own.
            uint32 index = _planIndexOf[successor];
            PlanRecord storage next = _plans[index];
            if (index == 0 || next.owner.provider() != msg.sender || next.payee.isDeprecated()) {
                revert InvalidSuccessor(planId, successor);
            }
            plan.owner = PlanWords.packOwner(msg.sender, index);
        }
        emit PlanClosed(planId, successor);
    }

    // ------------------------------------------------------------------ views

    /// @inheritdoc ITurnpike
    function getPlan(bytes32 planId) external view returns (PlanView memory) {
        return _planView(planId);
    }

    /// @inheritdoc ITurnpike
    function getPlans(bytes32[] calldata planIds) external view returns (PlanView[] memory views) {
        views = new PlanView[](planIds.length);
        for (uint256 i = 0; i < planIds.length; ++i) views[i] = _planView(planIds[i]);
    }

    /// @inheritdoc ITurnpike
    function isOperator(bytes32 planId, address operator) external view returns (bool) {
        // An unknown plan has index 0, for which no operator can be set.
        return _operators[_operatorKey(_planIndexOf[planId], operator)];
    }

    // ------------------------------------------------------------------ internals

    function _ownPlan(bytes32 planId) private view returns (uint32 index, PlanRecord storage plan) {
        (index, plan) = _existingPlan(planId);
        if (plan.owner.provider() != msg.sender) revert NotProvider(planId, msg.sender);
    }

    /// @dev This contract is neither token nor payee: it must never be made to call itself, nor to receive.
    function _requireSound(Terms calldata terms) private view {
        if (terms.token.code.length == 0 || terms.token == address(this)) revert InvalidTerms("token");
        if (terms.amount == 0) revert InvalidTerms("amount");
        if (terms.interval == 0) revert InvalidTerms("interval");
        if (terms.grace >= terms.interval) revert InvalidTerms("grace");
        if (terms.payTo == address(0) || terms.payTo == address(this)) revert InvalidTerms("payTo");
    }

    function _planView(bytes32 planId) private view returns (PlanView memory v) {
        v.index = _planIndexOf[planId];
        if (v.index == 0) return v;
        PlanRecord storage plan = _plans[v.index];
        OwnerWord owner = plan.owner;
        PayeeWord payee = plan.payee;
        v.planId = planId;
        v.provider = owner.provider();
        v.terms = Terms({
            token: plan.price.token(),
            amount: plan.price.amount(),
            interval: payee.interval(),
            grace: payee.grace(),
            payTo: payee.payTo()
        });
        v.deprecated = payee.isDeprecated();
        v.successor = _plans[owner.successorIndex()].planId;
    }
}
