// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike} from "./ITurnpike.sol";
import {AllowanceView, PlanView, SubscriptionState, SubscriptionView} from "./TurnpikeTypes.sol";

/// @title What Turnpike stores, as structs
/// @notice Each Turnpike creates its own lens first of all: its address is that of the creation with nonce 1,
/// `keccak256(rlp([turnpike, 1]))[12:]`. All answers are of the current block.
interface ITurnpikeLens {
    /// @notice The Turnpike that is read.
    function turnpike() external view returns (ITurnpike);

    /// @notice One subscription; an unknown one has a zero subscriber.
    function getSubscription(bytes32 idHash) external view returns (SubscriptionView memory);

    /// @notice One allowance; all zero when none was ever made.
    function getAllowance(bytes32 idHash) external view returns (AllowanceView memory);

    /// @notice Many subscriptions with their allowances in one read, for gates; unknown ones have a zero subscriber.
    function getStates(bytes32[] calldata idHashes) external view returns (SubscriptionState[] memory);

    /// @notice One plan; an unknown one is all zero.
    function getPlan(bytes32 planId) external view returns (PlanView memory);

    /// @notice Many plans in one read; unknown ones are all zero.
    function getPlans(bytes32[] calldata planIds) external view returns (PlanView[] memory);

    /// @notice What `account` may do on the plan: bits of `ITurnpike.setOperator`. 0 for an unknown plan.
    function rightsOf(bytes32 planId, address account) external view returns (uint8);
}
