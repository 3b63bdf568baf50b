// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

struct Log {
    bytes32[] topics;
    bytes data;
    address emitter;
}

/// @notice Foundry's cheat codes, as far as the laws need them.
interface Vm {
    // clock, callers, code
    function warp(uint256 timestamp) external;
    function prank(address caller) external;
    function etch(address account, bytes calldata code) external;

    function deployCode(string calldata artifact) external returns (address);

    // keys
    function addr(uint256 key) external pure returns (address);
    function sign(uint256 key, bytes32 digest) external pure returns (uint8 v, bytes32 r, bytes32 s);

    // what a call did
    function recordLogs() external;
    function getRecordedLogs() external returns (Log[] memory);
    function record() external;
    function stopRecord() external;
    function accesses(address account) external returns (bytes32[] memory reads, bytes32[] memory writes);
    function load(address account, bytes32 slot) external view returns (bytes32);
    function store(address account, bytes32 slot, bytes32 word) external;

    // trying something twice
    function snapshotState() external returns (uint256 id);
    function revertToStateAndDelete(uint256 id) external returns (bool);

    // what a run saw
    function writeLine(string calldata path, string calldata line) external;
}

Vm constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));
