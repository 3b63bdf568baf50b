// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @notice The computed standing of a subscription at a block's time.
/// @dev First match wins: NONE unknown; CANCELLED cancelled, rekeyed away, or ending and t >= paidThrough; PAUSED;
/// ACTIVE t < paidThrough + grace; PAST_DUE t < paidThrough + interval; EXPIRED otherwise.
enum Status {
    NONE,
    ACTIVE,
    PAST_DUE,
    EXPIRED,
    PAUSED,
    CANCELLED
}

/// @notice A provider's immutable terms.
struct Terms {
    address token; // ERC-20 that is paid
    uint96 amount; // price of one period, base units, > 0
    uint32 interval; // length of one period, seconds, > 0
    uint32 grace; // service after paidThrough while a renewal is awaited, seconds, < interval
    address payTo; // receives every charge and debit
}

/// @notice An EIP-2612 permit for Turnpike as spender; `deadline` 0 means "none".
struct Permit {
    uint256 value;
    uint256 deadline;
    uint8 v;
    bytes32 r;
    bytes32 s;
}

/// @notice A subscriber's signature over one change; `version` is the subscription's current version.
struct Auth {
    uint16 version;
    uint256 deadline; // unix seconds, inclusive
    bytes signature; // 65 bytes ECDSA, or ERC-1271 when the subscriber has code
}

/// @notice One pull under an allowance; `index` is the number of debits made so far.
struct Debit {
    bytes32 idHash;
    uint256 amount;
    uint256 index;
}

/// @notice A plan as stored.
struct PlanView {
    bytes32 planId; // zero when unknown
    uint32 index;
    address provider;
    Terms terms;
    bool deprecated;
    bytes32 successor; // zero: none named
}

/// @notice A subscription as stored, with its status at the current block's time.
struct SubscriptionView {
    bytes32 idHash;
    address subscriber; // zero when unknown
    bytes32 planId;
    uint40 paidThrough; // unix seconds, exclusive end of the paid period
    uint16 version;
    bool paused;
    bool ending; // cancelled at the period's end
    bool cancelled;
    Status status;
}

/// @notice An allowance as stored, with what remains at the current block's time.
struct AllowanceView {
    uint256 cap; // base units per cycle
    uint256 spent; // in the current cycle; zero when `spent` belongs to an older one
    uint256 remaining; // cap - spent, never below zero
    uint40 cycle; // the paidThrough that `spent` belongs to
    uint40 debits; // number of debits ever made: the next debit's index
}

/// @notice What a gate needs to know about one subscription, in one read.
struct SubscriptionState {
    SubscriptionView subscription;
    AllowanceView allowance;
}

interface ITurnpike {
    // ------------------------------------------------------------------ events
    event PlanCreated(
        bytes32 indexed planId,
        address indexed provider,
        uint32 index,
        Terms terms,
        bytes32 salt,
        string metadata
    );
    event PlanClosed(bytes32 indexed planId, bytes32 successor);
    event OperatorSet(bytes32 indexed planId, address indexed operator, bool allowed);
    event Subscribed(
        bytes32 indexed idHash,
        bytes32 indexed planId,
        address indexed subscriber,
        uint256 maxOverage,
        uint40 paidThrough
    );
    event Renewed(bytes32 indexed idHash, uint40 paidThrough);
    event RenewalFailed(bytes32 indexed idHash, bytes4 reason);
    event Paused(bytes32 indexed idHash);
    event Resumed(bytes32 indexed idHash, uint256 charged, uint40 paidThrough);
    event Cancelled(bytes32 indexed idHash, bool atPeriodEnd, address by);
    event MaxOverageSet(bytes32 indexed idHash, uint256 cap);
    event PlanChanged(
        bytes32 indexed idHash,
        bytes32 indexed newPlanId,
        uint256 maxOverage,
        uint256 charged,
        uint40 paidThrough
    );
    event Rekeyed(bytes32 indexed idHash, bytes32 indexed newIdHash);
    event Debited(bytes32 indexed idHash, uint256 amount, uint256 index);
    event DebitFailed(bytes32 indexed idHash, uint256 amount, uint256 index, bytes4 reason);

    // ------------------------------------------------------------------ errors
    error InvalidTerms(string field);
    error UnknownPlan(bytes32 planId);
    error PlanExists(bytes32 planId);
    error PlanDeprecated(bytes32 planId);
    error InvalidSuccessor(bytes32 planId, bytes32 successor);
    error PlanMismatch(bytes32 planId, bytes32 newPlanId);
    error CreditExceedsPrice(uint256 credit, uint256 price);
    error ChargeAboveMax(uint256 charge, uint256 maxCharge);
    error IdHashUsed(bytes32 idHash);
    error SubscriptionNotActive(bytes32 idHash, Status status);
    error Ending(bytes32 idHash);
    error NothingToResume(bytes32 idHash, Status status);
    error RenewalNotDue(bytes32 idHash, uint256 dueAt);
    error RenewalDue(bytes32 idHash, uint256 dueAt);
    error NotSubscriber(bytes32 idHash, address caller);
    error NotProvider(bytes32 planId, address caller);
    error NotOperator(bytes32 planId, address caller);
    error OnlySelf(address caller);
    error StaleVersion(bytes32 idHash, uint16 given, uint16 current);
    error VersionExhausted(bytes32 idHash);
    error SignatureExpired(uint256 deadline);
    error InvalidSignature(address signer);
    error CapTooLarge(uint256 cap, uint256 max);
    error ZeroAmount();
    error StaleDebit(bytes32 idHash, uint256 index, uint256 current);
    error AllowanceExhausted(bytes32 idHash, uint256 requested, uint256 remaining);
    error InsufficientFunds(address subscriber, address token, uint256 required, uint256 available);
    error InsufficientApproval(address subscriber, address token, uint256 required, uint256 available);
    error TransferFailed(address token, address from, address to, uint256 amount);
    error InsufficientGas(uint256 available, uint256 required);

    // ------------------------------------------------------------------ plans
    function createPlan(Terms calldata terms, bytes32 salt, string calldata metadata) external returns (bytes32 planId);
    function deprecatePlan(bytes32 planId, bytes32 successor) external;
    function setOperator(bytes32 planId, address operator, bool allowed) external;

    // ------------------------------------------------------------------ subscriptions
    function subscribe(bytes32 planId, bytes32 secretHash, uint256 maxOverage) external returns (bytes32 idHash);
    function subscribeBySig(
        address subscriber,
        bytes32 planId,
        bytes32 secretHash,
        uint256 maxOverage,
        uint256 deadline,
        bytes calldata signature,
        Permit calldata permit
    ) external returns (bytes32 idHash);
    function pause(bytes32 idHash) external;
    function pauseBySig(bytes32 idHash, Auth calldata auth) external;
    function resume(bytes32 idHash, uint256 maxCharge) external;
    function resumeBySig(bytes32 idHash, uint256 maxCharge, Auth calldata auth) external;
    function cancel(bytes32 idHash, bool atPeriodEnd) external;
    function cancelBySig(bytes32 idHash, bool atPeriodEnd, Auth calldata auth) external;
    function changePlan(bytes32 idHash, bytes32 newPlanId, uint256 maxOverage, uint256 maxCharge) external;
    function changePlanBySig(
        bytes32 idHash,
        bytes32 newPlanId,
        uint256 maxOverage,
        uint256 maxCharge,
        Auth calldata auth
    ) external;
    function rekey(bytes32 idHash, bytes32 newSecretHash) external returns (bytes32 newIdHash);
    function rekeyBySig(bytes32 idHash, bytes32 newSecretHash, Auth calldata auth) external returns (bytes32 newIdHash);

    // ------------------------------------------------------------------ renewals
    function renew(bytes32 idHash) external;
    function renewBatch(bytes32[] calldata idHashes) external returns (bytes4[] memory reasons);

    // ------------------------------------------------------------------ allowances
    function setMaxOverage(bytes32 idHash, uint256 cap) external;
    function setMaxOverageBySig(bytes32 idHash, uint256 cap, Auth calldata auth) external;
    function debit(bytes32 idHash, uint256 amount, uint256 index) external;
    function debitBatch(Debit[] calldata debits) external returns (bytes4[] memory reasons);

    // ------------------------------------------------------------------ views
    function statusOf(bytes32 idHash) external view returns (Status);
    function getSubscription(bytes32 idHash) external view returns (SubscriptionView memory);
    function getAllowance(bytes32 idHash) external view returns (AllowanceView memory);
    function getPlan(bytes32 planId) external view returns (PlanView memory);
    /// @notice Many subscriptions with their allowances in one read, for gates; unknown ones have a zero subscriber.
    function getStates(bytes32[] calldata idHashes) external view returns (SubscriptionState[] memory);
    function getPlans(bytes32[] calldata planIds) external view returns (PlanView[] memory);
    /// @notice What `changePlan` would charge now, in base units, and the credit for the unused time.
    function quoteChange(bytes32 idHash, bytes32 newPlanId) external view returns (uint256 charge, uint256 credit);
    function isOperator(bytes32 planId, address operator) external view returns (bool);
    function idHashOf(address subscriber, bytes32 secretHash) external pure returns (bytes32);

    // ------------------------------------------------------------------ several calls at once
    function multicall(bytes[] calldata data) external returns (bytes[] memory results);
}
