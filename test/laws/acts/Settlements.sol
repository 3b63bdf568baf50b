// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IBatchSettler, Transfer} from "../../../contracts/interfaces/IBatchSettler.sol";
import {FickleToken} from "../doubles/FickleToken.sol";
import {FickleWallet} from "../doubles/FickleWallet.sol";
import {Premise} from "../Premises.sol";
import {Log, vm} from "../Vm.sol";
import {Unexpected} from "../World.sol";
import {Circumstances} from "./Circumstances.sol";

/// @notice One-time payments by signed authorization: sound, altered, used, early, late, underfunded, poisoned.
abstract contract Settlements is Circumstances {
    uint256 private constant GAS_PER_ITEM = 250_000;
    /// @dev The way to the call, its encoding and the outcome.
    uint256 private constant MOST_AROUND_ITEM = 30_000;
    bytes32 private constant TRANSFER = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );

    address[2] private _merchants = [address(0x1101), address(0x1102)];
    Transfer[] private _signed; // every authorization that was soundly signed
    mapping(bytes32 authorization => bytes32) private _terms; // what its payer signed; 0: nothing
    mapping(bytes32 authorization => uint256) internal movedTimes;
    mapping(bytes32 authorization => bool) private _used;

    function _authorization(address token, address from, bytes32 nonce) private pure returns (bytes32) {
        return keccak256(abi.encode(token, from, nonce));
    }

    // ------------------------------------------------------------------ signing

    function _someTransfer(uint256 seed) private returns (Transfer memory t) {
        if (_signed.length != 0 && _draw(seed, 4) == 0) return _signed[_draw(seed, _signed.length)];
        // Paxos's tokens take no contract's signature.
        bool onFickle = _draw(seed, 2) == 0;
        Account storage payer = subscribers[_draw(seed, onFickle ? 2 : 4)];
        t.token = onFickle ? address(fickle) : address(sound);
        t.from = payer.self;
        t.to = _draw(seed, 16) == 0 ? address(settler) : _merchants[_draw(seed, 2)];
        t.value = _draw(seed, 12) == 0 ? balances[t.token][t.from] + 1 : _draw(seed, 1e6);
        uint256 roll = _draw(seed, 12);
        t.validAfter = roll == 0 ? clock : clock - 1;
        t.validBefore = roll == 1 ? clock : clock + 1 + _draw(seed, 30 days);
        t.nonce = keccak256(abi.encode("nonce", seed, _signed.length));
        bytes32 separator = onFickle ? fickle.DOMAIN_SEPARATOR() : sound.DOMAIN_SEPARATOR();
        bytes32 structHash = keccak256(
            abi.encode(TRANSFER, t.from, t.to, t.value, t.validAfter, t.validBefore, t.nonce)
        );
        t.signature = _signature(payer.key, separator, structHash);
        // The bytes form, of a wallet that packs more into its signature.
        if (address(payer.wallet) != address(0) && _draw(seed, 2) == 0)
            t.signature = abi.encodePacked(t.signature, "x");
        _signed.push(t);
        _terms[_authorization(t.token, t.from, t.nonce)] = keccak256(abi.encode(t.to, t.value));
    }

    /// @dev Turns a signed transfer into one that nobody signed.
    function _altered(uint256 seed, Transfer memory t) private returns (Transfer memory) {
        uint256 roll = _draw(seed, 6);
        if (roll == 0) t.to = RELAYER;
        else if (roll == 1) t.value += 1;
        else if (roll == 2) t.from = BYSTANDER;
        else if (roll == 3) t.nonce = bytes32(uint256(t.nonce) + 1);
        else if (roll == 4) t.token = t.token == address(sound) ? address(fickle) : address(sound);
        else t.token = address(0x9999); // no code
        _saw(Premise.AuthorizationAltered);
        return t;
    }

    // ------------------------------------------------------------------ expecting

    /// @dev Whether the token's call succeeds; moves the model's money when the token moves.
    function _expectItem(Transfer memory t, bool altered) private returns (bool ok, bool moves) {
        if (t.token == address(0x9999) || t.to == address(settler)) return (false, false);
        bytes32 authorization = _authorization(t.token, t.from, t.nonce);
        if (clock <= t.validAfter || clock >= t.validBefore) return (false, false);
        if (t.token == address(fickle)) {
            FickleToken.Fault fault = fickle.fault();
            if (fault >= FickleToken.Fault.Reverts && fault <= FickleToken.Fault.BurnsGasBlind) {
                _sawFault();
                return (false, false);
            }
            if (t.signature.length != 65) return (false, false);
            if (_used[authorization]) return (true, false);
            if (altered) return (false, false);
        } else {
            if (_used[authorization] || altered || !_isAccepted(_accountOf(t.from), 0)) return (false, false);
        }
        if (balances[t.token][t.from] < t.value) return (false, false);
        balances[t.token][t.from] -= t.value;
        balances[t.token][t.to] += t.value;
        _used[authorization] = true;
        return (true, true);
    }

    // ------------------------------------------------------------------ settling

    function settle(uint256 seed) external atClock {
        uint256 count = 1 + _draw(seed, 5);
        Transfer[] memory items = new Transfer[](count);
        bool[] memory expected = new bool[](count);
        uint256 moves;
        fickle.setEcho(bytes32(0));
        for (uint256 i = 0; i < count; ++i) {
            bool repeated = i != 0 && _draw(seed, 6) == 0;
            items[i] = repeated ? items[i - 1] : _someTransfer(seed);
        }
        // Signing comes before altering: a repeated item is the same in memory.
        for (uint256 i = 0; i < count; ++i) {
            bool altered;
            if (_draw(seed, 6) == 0) {
                items[i] = _altered(seed, _copy(items[i]));
                altered = true;
            }
            bool used = _used[_authorization(items[i].token, items[i].from, items[i].nonce)];
            bool moved;
            (expected[i], moved) = _expectItem(items[i], altered);
            if (moved) ++moves;
            if (used && !moved) _saw(Premise.AuthorizationUsedAgain);
            _saw(moved ? Premise.PaymentSettled : Premise.PaymentRefused);
        }
        bytes memory starved = _starve(seed, items);
        if (starved.length != 0 && keccak256(starved) != keccak256(abi.encode(expected))) {
            _breach(16, "little gas changed a payment's outcome");
        }
        _submit(items, expected, moves);
    }

    /// @dev At times, the same with little gas, undone again: it ends the same, or is refused as a whole.
    function _starve(uint256 seed, Transfer[] memory items) private returns (bytes memory) {
        if (_draw(seed, 4) != 0) return "";
        uint256 gasGiven = 30_000 + _draw(seed, 2 * GAS_PER_ITEM);
        bytes memory data = abi.encodeCall(IBatchSettler.settle, (items, GAS_PER_ITEM));
        uint256 snapshot = vm.snapshotState();
        (bool ok, bytes memory answer) = address(settler).call{gas: gasGiven}(data);
        vm.revertToStateAndDelete(snapshot);
        _saw(Premise.BatchStarved);
        return ok ? answer : bytes("");
    }

    function _copy(Transfer memory t) private pure returns (Transfer memory) {
        return abi.decode(abi.encode(t), (Transfer));
    }

    function _submit(Transfer[] memory items, bool[] memory expected, uint256 moves) private {
        ++step;
        vm.recordLogs();
        vm.prank(RELAYER);
        uint256 used = gasleft();
        bool[] memory ok = settler.settle{gas: AMPLE_GAS}(items, GAS_PER_ITEM);
        used -= gasleft();
        if (keccak256(abi.encode(ok)) != keccak256(abi.encode(expected))) {
            revert Unexpected("settled", abi.encode(expected), abi.encode(ok));
        }
        if (used > items.length * (GAS_PER_ITEM + MOST_AROUND_ITEM) + 50_000) {
            _breach(18, "a payment cost more than its gas");
        }
        if (_judgePayments(vm.getRecordedLogs()) != moves) _breach(24, "other transfers than were signed");
        for (uint256 i = 0; i < items.length; ++i) {
            if (items[i].token == address(0x9999)) continue;
            _compareMoney(items[i].token, items[i].from);
            _compareMoney(items[i].token, items[i].to);
        }
    }

    /// @dev An authorization that is used is followed by its transfer: to whom and how much the payer signed, once.
    /// (Without a transfer the log is one of a call that reverted, which is recorded too.)
    function _judgePayments(Log[] memory logs) private returns (uint256 transfers) {
        bytes32 authorization;
        for (uint256 i = 0; i < logs.length; ++i) {
            bytes32 topic = logs[i].topics[0];
            if (topic == keccak256("AuthorizationUsed(address,bytes32)")) {
                address from = address(uint160(uint256(logs[i].topics[1])));
                authorization = _authorization(logs[i].emitter, from, logs[i].topics[2]);
            } else if (topic == keccak256("Transfer(address,address,uint256)")) {
                ++transfers;
                if (++movedTimes[authorization] != 1) _breach(24, "an authorization moved funds twice");
                Movement memory m = _movement(logs[i]);
                if (_terms[authorization] != keccak256(abi.encode(m.to, m.amount))) {
                    _breach(24, "not the recipient or amount that was signed");
                }
                if (m.to == address(settler) || m.to == address(turnpike)) _breach(1, "a contract of ours was paid");
            }
        }
    }
}
