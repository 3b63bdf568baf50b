// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ERC165Checker} from "@openzeppelin/contracts/utils/introspection/ERC165Checker.sol";
import {ITurnpike, Terms} from "./interfaces/ITurnpike.sol";
import {ALL_RIGHTS} from "./interfaces/TurnpikeTypes.sol";
import {Ledger} from "./Ledger.sol";
import {OwnerWord, PayeeWord, PlanWords, ProposalWord} from "./libraries/Words.sol";

/// @title Plans: terms, the rights of others on them, their payee, provider and end
abstract contract Plans is Ledger {
    /// @dev Longer than a long weekend: the time in which a payee can notice and withdraw what a stolen key proposed.
    uint256 private constant PAYEE_DELAY = 7 days;
    uint256 private constant MAX_MONTHS = 1_200;
    uint256 private constant SHORTEST_MONTH = 28 days;
    bytes4 private constant ERC721 = 0x80ac58cd; // its ERC-165 interface id

    // ------------------------------------------------------------------ create

    /// @inheritdoc ITurnpike
    function createPlan(
        Terms calldata terms,
        bytes32 salt,
        string calldata metadata
    ) external returns (bytes32 planId) {
        _requireSound(terms);
        planId = keccak256(
            abi.encode(block.chainid, address(this), msg.sender, terms, salt, keccak256(bytes(metadata)))
        );
        if (_planIndexOf[planId] != 0) revert PlanExists(planId);

        uint32 index = ++_planCount;
        _planIndexOf[planId] = index;
        PlanRecord storage plan = _plans[index];
        plan.price = PlanWords.packPrice(terms.token, terms.amount);
        plan.payee = PlanWords.packPayee(terms.payTo, terms.interval, terms.months, terms.grace);
        plan.owner = PlanWords.packOwner(msg.sender, 0);
        plan.planId = planId;

        emit PlanCreated(planId, msg.sender, index, terms, salt, metadata);
        _setRights(planId, index, msg.sender, ALL_RIGHTS);
    }

    // ------------------------------------------------------------------ use

    /// @inheritdoc ITurnpike
    function setOperator(bytes32 planId, address account, uint8 rights) external {
        if (rights > ALL_RIGHTS) revert InvalidTerms("rights");
        (uint32 index, ) = _ownPlan(planId);
        _setRights(planId, index, account, rights);
    }

    // ------------------------------------------------------------------ payee and provider

    /// @inheritdoc ITurnpike
    function proposePayTo(bytes32 planId, address payTo) external {
        if (payTo == address(0) || payTo == address(this)) revert InvalidTerms("payTo");
        (uint32 index, PlanRecord storage plan, bool isByPayee) = _asPartner(planId);
        MoveRecord storage move = _moves[index];
        ProposalWord standing = move.proposal;
        if (standing.payTo() == payTo && standing.isByPayee() != isByPayee) {
            return _movePayee(planId, plan, move, payTo);
        }
        uint40 effectiveAt = uint40(block.timestamp + PAYEE_DELAY);
        move.proposal = PlanWords.packProposal(payTo, effectiveAt, isByPayee);
        emit PayToProposed(planId, payTo, effectiveAt, msg.sender);
    }

    /// @inheritdoc ITurnpike
    function withdrawPayTo(bytes32 planId) external {
        (uint32 index, , ) = _asPartner(planId);
        MoveRecord storage move = _moves[index];
        _requireProposal(planId, move);
        move.proposal = ProposalWord.wrap(0);
        emit PayToProposed(planId, address(0), 0, msg.sender);
    }

    /// @inheritdoc ITurnpike
    function applyPayTo(bytes32 planId) external {
        (uint32 index, PlanRecord storage plan) = _existingPlan(planId);
        MoveRecord storage move = _moves[index];
        ProposalWord proposal = _requireProposal(planId, move);
        if (block.timestamp < proposal.effectiveAt()) revert TooEarly(planId, proposal.effectiveAt());
        _movePayee(planId, plan, move, proposal.payTo());
    }

    /// @inheritdoc ITurnpike
    function offerPlan(bytes32 planId, address nextProvider) external {
        (uint32 index, ) = _ownPlan(planId);
        _moves[index].nextProvider = nextProvider;
        emit PlanOffered(planId, nextProvider);
    }

    /// @inheritdoc ITurnpike
    function acceptPlan(bytes32 planId) external {
        (uint32 index, PlanRecord storage plan) = _existingPlan(planId);
        MoveRecord storage move = _moves[index];
        if (move.nextProvider != msg.sender) revert NotProvider(planId, msg.sender);

        OwnerWord owner = plan.owner;
        address payTo = plan.payee.payTo();
        if (payTo != owner.provider()) revert PayeeApart(planId, payTo);

        move.nextProvider = address(0);
        plan.owner = PlanWords.packOwner(msg.sender, owner.successorIndex());
        emit PlanTransferred(planId, msg.sender);
        _movePayee(planId, plan, move, msg.sender);
        // In this order, so that a provider who accepts its own offer keeps its rights.
        _setRights(planId, index, owner.provider(), 0);
        _setRights(planId, index, msg.sender, ALL_RIGHTS);
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
            if (
                index == 0 ||
                next.owner.provider() != msg.sender ||
                next.price.token() != plan.price.token() ||
                next.payee.isDeprecated()
            ) {
                revert InvalidSuccessor(planId, successor);
            }
            plan.owner = PlanWords.packOwner(msg.sender, index);
        }
        emit PlanClosed(planId, successor);
    }

    /// @inheritdoc ITurnpike
    function stopPlan(bytes32 planId) external {
        (, PlanRecord storage plan) = _ownPlan(planId);
        PayeeWord payee = plan.payee;
        if (payee.isStopped()) revert PlanStopped(planId);

        plan.payee = payee.asStopped();
        if (!payee.isDeprecated()) emit PlanClosed(planId, bytes32(0));
        emit PlanEnded(planId);
    }

    // ------------------------------------------------------------------ internals

    function _ownPlan(bytes32 planId) private view returns (uint32 index, PlanRecord storage plan) {
        (index, plan) = _existingPlan(planId);
        if (plan.owner.provider() != msg.sender) revert NotProvider(planId, msg.sender);
    }

    /// @dev For the two that decide about the payee: the provider, and the payee itself. One account that is both acts
    /// as the provider, and so never confirms itself.
    function _asPartner(bytes32 planId) private view returns (uint32 index, PlanRecord storage plan, bool isByPayee) {
        (index, plan) = _existingPlan(planId);
        isByPayee = plan.owner.provider() != msg.sender;
        if (isByPayee && plan.payee.payTo() != msg.sender) revert NotProvider(planId, msg.sender);
    }

    function _requireProposal(bytes32 planId, MoveRecord storage move) private view returns (ProposalWord proposal) {
        proposal = move.proposal;
        if (ProposalWord.unwrap(proposal) == 0) revert NotProposed(planId);
    }

    function _movePayee(bytes32 planId, PlanRecord storage plan, MoveRecord storage move, address payTo) private {
        PayeeWord payee = plan.payee;
        if (move.firstPayTo == address(0)) move.firstPayTo = payee.payTo();
        move.proposal = ProposalWord.wrap(0);
        plan.payee = payee.withPayTo(payTo);
        emit PayToMoved(planId, payTo);
    }

    function _setRights(bytes32 planId, uint32 index, address account, uint8 rights) private {
        _rights[_operatorKey(index, account)] = rights;
        emit OperatorSet(planId, account, rights);
    }

    /// @dev This contract is neither token nor payee: it must never be made to call itself, nor to receive. An NFT has
    /// the same `transferFrom`, with an id where the amount is.
    function _requireSound(Terms calldata terms) private view {
        if (terms.token.code.length == 0 || terms.token == address(this)) revert InvalidTerms("token");
        if (ERC165Checker.supportsInterface(terms.token, ERC721)) revert InvalidTerms("token");
        if (terms.amount == 0) revert InvalidTerms("amount");
        if (terms.interval == 0 || (terms.months && terms.interval > MAX_MONTHS)) revert InvalidTerms("interval");
        uint256 shortest = terms.months ? terms.interval * SHORTEST_MONTH : terms.interval;
        if (terms.grace >= shortest) revert InvalidTerms("grace");
        if (terms.payTo == address(0) || terms.payTo == address(this)) revert InvalidTerms("payTo");
    }
}
