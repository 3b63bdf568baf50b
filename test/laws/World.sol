// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IBatchSettler} from "../../contracts/interfaces/IBatchSettler.sol";
import {ITurnpike, Terms} from "../../contracts/interfaces/ITurnpike.sol";
import {ITurnpikeLens} from "../../contracts/interfaces/ITurnpikeLens.sol";
import {TestToken} from "../../contracts/test/TestToken.sol";
import {FickleToken} from "./doubles/FickleToken.sol";
import {FickleWallet} from "./doubles/FickleWallet.sol";
import {vm} from "./Vm.sol";

/// @notice What a test account expects, and what came instead.
error Unexpected(string act, bytes expected, bytes actual);

/// @notice Who and what there is: contracts, accounts, tokens, plans and the clock. No rule lives here.
abstract contract World {
    struct Account {
        address self;
        uint256 key; // its own, or its owner's
        FickleWallet wallet; // zero: it signs with its key
    }

    struct Plan {
        bytes32 id;
        address provider;
        Terms terms; // with the present payee
        bytes32 salt;
        string metadata;
        bool deprecated;
        bool stopped;
        bytes32 successor;
        address firstProvider;
        address firstPayTo;
        address proposedPayTo;
        bool proposedByPayee;
        uint256 effectiveAt;
        address nextProvider;
    }

    uint256 internal constant MUCH = 1e24;
    /// @dev What a transaction is given: enough for every batch here, and little enough to be burnt quickly.
    uint256 internal constant AMPLE_GAS = 12_000_000;

    ITurnpike internal turnpike;
    ITurnpikeLens internal lens;
    IBatchSettler internal settler;
    TestToken internal sound;
    FickleToken internal fickle;
    uint256 internal clock; // unix seconds

    Account[] internal subscribers;
    /// @dev They sign vouchers.
    uint256[3] internal issuerKeys = [uint256(0xA11), 0xA12, 0xA13];
    address[2] internal providers = [vm.addr(0xA11), vm.addr(0xA12)];
    address internal issuer = vm.addr(0xA13); // signs for a provider, and does nothing else
    address[3] internal payees = [address(0xB11), address(0xB12), address(0xB13)];
    /// @dev They differ in the highest bit alone.
    address[2] internal operators = [address(0xC11), address(uint160((1 << 159) | 0xC11))];
    address internal constant RELAYER = address(0xD11);
    address internal constant STRANGER = address(0xE11);
    /// @dev Has money and approves Turnpike without limit, but never asked for anything.
    address internal constant BYSTANDER = address(0xF11);

    Plan[] internal plans;
    mapping(bytes32 planId => uint256 position) internal planAt; // 1 is the first
    Plan private _noPlan;

    function _build() internal {
        clock = 1_748_700_000; // 31 May 2025, so that the first months start on their last possible day
        vm.warp(clock);
        turnpike = ITurnpike(vm.deployCode("Turnpike.sol:Turnpike"));
        // The first contract that Turnpike created.
        bytes32 created = keccak256(abi.encodePacked(hex"d694", address(turnpike), hex"01"));
        lens = ITurnpikeLens(address(uint160(uint256(created))));
        settler = IBatchSettler(vm.deployCode("BatchSettler.sol:BatchSettler"));
        sound = new TestToken("Test USD", "tUSD", "1", 6);
        fickle = new FickleToken(turnpike);
        for (uint256 i = 0; i < 5; ++i) _addSubscriber(i);
        sound.mint(BYSTANDER, MUCH);
        fickle.mint(BYSTANDER, MUCH);
        _approve(BYSTANDER, false, type(uint256).max);
        _approve(BYSTANDER, true, type(uint256).max);
    }

    /// @dev 0, 1: keys; 2, 3: wallets of one and the same owner; 4: a key whose account has code that accepts nothing.
    function _addSubscriber(uint256 i) private {
        uint256 key = uint256(keccak256(abi.encode("test subscriber", i == 3 ? 2 : i)));
        address self = vm.addr(key);
        FickleWallet wallet;
        if (i == 2 || i == 3) {
            wallet = new FickleWallet(self);
            self = address(wallet);
        }
        if (i == 4) vm.etch(self, hex"60006000fd");
        subscribers.push(Account(self, key, wallet));
        sound.mint(self, MUCH);
        fickle.mint(self, MUCH);
        _approve(self, false, type(uint256).max);
        _approve(self, true, type(uint256).max);
    }

    function _approve(address owner, bool onFickle, uint256 amount) internal {
        vm.prank(owner);
        if (onFickle) fickle.approve(address(turnpike), amount);
        else sound.approve(address(turnpike), amount);
    }

    function _balance(address token, address account) internal view returns (uint256) {
        return token == address(fickle) ? fickle.trueBalanceOf(account) : sound.balanceOf(account);
    }

    function _approval(address token, address owner) internal view returns (uint256) {
        return
            token == address(fickle)
                ? fickle.trueAllowance(owner, address(turnpike))
                : sound.allowance(owner, address(turnpike));
    }

    /// @dev All zero for an unknown plan, and so for the record of a voided idHash.
    function _planOf(bytes32 planId) internal view returns (Plan storage) {
        uint256 place = planAt[planId];
        return place == 0 ? _noPlan : plans[place - 1];
    }

    /// @dev Sets the clock for this call: Foundry does not promise to keep it from one call of a sequence to the next.
    modifier atClock() {
        vm.warp(clock);
        _;
    }

    // ------------------------------------------------------------------ signing

    function _domainSeparator(address verifier, uint256 chainId) internal pure returns (bytes32) {
        return
            keccak256(
                abi.encode(
                    keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                    keccak256("Turnpike"),
                    keccak256("1"),
                    chainId,
                    verifier
                )
            );
    }

    function _signature(uint256 key, bytes32 separator, bytes32 structHash) internal pure returns (bytes memory) {
        (uint8 v, bytes32 r, bytes32 s) = vm.sign(key, keccak256(abi.encodePacked(hex"1901", separator, structHash)));
        return abi.encodePacked(r, s, v);
    }
}
