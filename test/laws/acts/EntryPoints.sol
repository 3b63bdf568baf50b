// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Auth, ITurnpike, Status, Terms} from "../../../contracts/interfaces/ITurnpike.sol";
import {SubscriptionState} from "../../../contracts/interfaces/ITurnpikeLens.sol";
import {FickleToken} from "../doubles/FickleToken.sol";
import {FickleWallet} from "../doubles/FickleWallet.sol";
import {Model} from "../Model.sol";
import {Premise} from "../Premises.sol";
import {vm} from "../Vm.sol";
import {Witness} from "../Witness.sol";
import {Unexpected} from "../World.sol";

/// @notice How an act reaches Turnpike: by whom, called or signed, soundly or not; and that it ends exactly as expected.
abstract contract EntryPoints is Model, Witness {
    /// @dev One act of a subscriber; the signature comes last.
    struct Act {
        bytes32 id;
        bytes4 selector;
        bytes32 typeHash;
        bytes fields; // between id and the end, in words
        bytes message; // the same in the message, where it has more than the call; empty: the same
    }

    /// @dev The chosen entry point: what to send, and the error that it implies already.
    struct Entry {
        address caller;
        address subscriber; // who is behind it; zero: nobody
        bytes data;
        bytes err;
        bool signed;
        uint16 version;
    }

    struct Spent {
        bytes data;
        bytes32 id;
        uint16 version;
    }

    Spent[] internal spentSignatures;
    uint256 private _salt;

    // ------------------------------------------------------------------ choosing

    /// @dev A fresh number from a seed; each use gives another.
    function _draw(uint256 seed, uint256 below) internal returns (uint256) {
        return uint256(keccak256(abi.encode(seed, ++_salt))) % below;
    }

    /// @dev Mostly a living record, at times one that ended, rarely one that never was.
    function _pick(uint256 seed) internal returns (bytes32 id) {
        uint256 roll = _draw(seed, 64);
        if (roll == 0) return keccak256(abi.encode("unknown", seed));
        uint256 place = _draw(seed, ids.length);
        for (uint256 i = 0; i < ids.length; ++i) {
            id = ids[(place + i) % ids.length];
            if (roll < 10 || _statusAt(records[id], clock) != Status.CANCELLED) return id;
        }
    }

    /// @dev Mostly a record of which `isFit` is true, if there is one.
    function _pickFit(uint256 seed, function(bytes32) view returns (bool) isFit) internal returns (bytes32 id) {
        if (_draw(seed, 4) == 0) return _pick(seed);
        uint256 place = _draw(seed, ids.length);
        for (uint256 i = 0; i < ids.length; ++i) {
            id = ids[(place + i) % ids.length];
            if (isFit(id)) return id;
        }
    }

    /// @dev Before some acts, time passes.
    modifier drifting(uint256 seed) {
        if (_draw(seed, 6) == 0) _passToBoundary(seed);
        vm.warp(clock);
        _;
    }

    /// @dev Of three living records that are paid now, the one that falls due first, so that time does not run away
    /// from all the others.
    function _pickNext(uint256 seed) private returns (bytes32 id) {
        uint256 soonest = type(uint256).max;
        for (uint256 i = 0; i < 3; ++i) {
            bytes32 one = ids[_draw(seed, ids.length)];
            Record storage r = records[one];
            if (r.paidThrough <= clock || r.paidThrough >= soonest || r.cancelled) continue;
            (id, soonest) = (one, r.paidThrough);
        }
    }

    /// @dev To a boundary of some record, or one second beside it, or somewhere between two.
    function _passToBoundary(uint256 seed) internal {
        Record storage r = records[_draw(seed, 6) == 0 ? _pick(seed) : _pickNext(seed)];
        if (r.planId == bytes32(0)) return;
        Terms storage terms = _planOf(r.planId).terms;
        uint256 roll = _draw(seed, 12);
        uint256 place = r.paidThrough;
        if (r.until > clock && _draw(seed, 3) == 0) (place, roll) = (r.until, 5);
        if (roll < 6) place = place + _draw(seed, 3) - 1;
        if (roll == 3) place += terms.grace;
        else if (roll == 4) place += _boundaryOf(r) - r.paidThrough;
        else if (roll == 6) place += _draw(seed, _boundaryOf(r) - r.paidThrough);
        else if (roll == 7) place -= _draw(seed, terms.months ? 28 days : terms.interval);
        else if (roll > 7) place += _draw(seed, uint256(terms.grace) + 1);
        if (place > clock) clock = place;
    }

    function _accountOf(address subscriber) internal view returns (Account storage) {
        for (uint256 i = 0; i < subscribers.length; ++i) {
            if (subscribers[i].self == subscriber) return subscribers[i];
        }
        return subscribers[0];
    }

    // ------------------------------------------------------------------ choosing an entry point

    /// @dev Chooses by `seed` who acts and in which form. The model is not asked about the act itself.
    function _open(uint256 seed, Act memory act) internal returns (Entry memory entry) {
        address subscriber = records[act.id].subscriber;
        uint256 roll = _draw(seed, 16);
        if (roll < 7) return _direct(act, subscriber == address(0) ? STRANGER : subscriber);
        if (roll == 7) {
            _saw(Premise.ActOfStranger);
            return _direct(act, STRANGER);
        }
        if (roll == 8) return _direct(act, subscribers[_draw(seed, subscribers.length)].self);
        if (roll < 14) {
            entry = _sign(act, uint16(records[act.id].version), 0);
            entry.caller = _relayer(seed, act.id);
            return entry;
        }
        if (roll == 14) {
            entry = _sign(act, uint16(records[act.id].version + 1 + _draw(seed, 9)), 0);
        } else {
            entry = _sign(act, uint16(records[act.id].version), 1 + _draw(seed, FLAWS));
        }
        _saw(Premise.SignatureFlawed);
        entry.caller = RELAYER;
    }

    /// @dev Half of the time the plan's own provider brings the subscriber's signature.
    function _relayer(uint256 seed, bytes32 id) private returns (address) {
        if (_draw(seed, 2) == 0 || records[id].planId == bytes32(0)) return RELAYER;
        return _planOf(records[id].planId).provider;
    }

    function _unsigned() internal pure returns (Auth memory none) {}

    function _direct(Act memory act, address caller) internal view returns (Entry memory entry) {
        address subscriber = records[act.id].subscriber;
        entry.caller = caller;
        entry.data = abi.encodePacked(
            act.selector,
            act.id,
            act.fields,
            uint256(act.fields.length + 64),
            abi.encode(uint256(0), uint256(0), "")
        );
        if (subscriber == address(0)) {
            entry.err = _notActive(act.id, Status.NONE);
        } else if (caller != subscriber) {
            entry.err = abi.encodeWithSelector(ITurnpike.NotSubscriber.selector, act.id, caller);
        } else {
            entry.subscriber = subscriber;
        }
    }

    uint256 internal constant FLAWS = 9;
    /// @dev A permit, a transfer, two questions after a failure, and all the work around them.
    uint256 private constant MOST_PER_ACT = 900_000;

    /// @dev `flaw` 0: none. The order of the errors is Turnpike's: unknown, version, deadline, signature.
    function _sign(Act memory act, uint16 version, uint256 flaw) internal returns (Entry memory entry) {
        address subscriber = records[act.id].subscriber;
        uint256 deadline = flaw == 1 ? clock - 1 : _someDeadline(version);
        bytes32 structHash = keccak256(
            abi.encodePacked(
                abi.encode(act.typeHash, flaw == 2 ? subscribers[0].self : subscriber, act.id),
                act.message.length != 0 ? act.message : act.fields,
                abi.encode(version, deadline)
            )
        );
        bytes memory signature = _flawed(_accountOf(subscriber), structHash, flaw);
        entry.signed = true;
        entry.version = version;
        entry.data = abi.encodePacked(
            act.selector,
            act.id,
            act.fields,
            uint256(act.fields.length + 64),
            abi.encode(version, deadline, signature)
        );
        if (subscriber == address(0)) {
            entry.err = _notActive(act.id, Status.NONE);
        } else if (version != records[act.id].version) {
            entry.err = abi.encodeWithSelector(
                ITurnpike.StaleVersion.selector,
                act.id,
                version,
                uint16(records[act.id].version)
            );
        } else if (flaw == 1) {
            entry.err = abi.encodeWithSelector(ITurnpike.SignatureExpired.selector, deadline);
        } else if (!_isAccepted(_accountOf(subscriber), flaw)) {
            entry.err = abi.encodeWithSelector(ITurnpike.InvalidSignature.selector, subscriber);
        } else {
            entry.subscriber = subscriber;
        }
    }

    /// @dev Mostly far: what is replayed must fail for another reason than its age.
    function _someDeadline(uint256 seed) internal returns (uint256) {
        uint256 roll = _draw(seed, 8);
        if (roll == 0) return clock; // inclusive
        return clock + (roll == 1 ? _draw(seed, 1 days) : 36_500 days);
    }

    /// @dev The flaws 2 to 9: another subscriber, another verifier, another chain, another key, malleable, 64 bytes,
    /// padded, empty. A wallet of ours reads the first 65 bytes and takes no matter which s: that is its own affair.
    function _flawed(Account storage account, bytes32 structHash, uint256 flaw) internal view returns (bytes memory) {
        bytes32 separator =
            flaw == 3
                ? _domainSeparator(address(settler), block.chainid)
                : _domainSeparator(address(turnpike), flaw == 4 ? block.chainid + 1 : block.chainid);
        bytes memory signature = _signature(flaw == 5 ? 0xbad : account.key, separator, structHash);
        if (flaw == 6) return _malleable(signature);
        if (flaw == 7) return _cut(signature, 64);
        if (flaw == 8) return abi.encodePacked(signature, uint8(0));
        if (flaw == 9) return "";
        return signature;
    }

    function _malleable(bytes memory signature) private pure returns (bytes memory) {
        uint256 order = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141;
        (bytes32 r, uint256 s, uint8 v) = (_word(signature, 0), uint256(_word(signature, 32)), uint8(signature[64]));
        return abi.encodePacked(r, order - s, v == 27 ? uint8(28) : uint8(27));
    }

    function _word(bytes memory data, uint256 place) private pure returns (bytes32 word) {
        assembly {
            word := mload(add(add(data, 0x20), place))
        }
    }

    function _cut(bytes memory data, uint256 length) private pure returns (bytes memory cut) {
        cut = new bytes(length);
        for (uint256 i = 0; i < length; ++i) cut[i] = data[i];
    }

    /// @dev Whether `account` made a signature with this flaw. Flaw 2 is none for subscriber 0 itself.
    function _isAccepted(Account storage account, uint256 flaw) internal view returns (bool) {
        if (flaw == 2 && account.self == subscribers[0].self) flaw = 0;
        if (address(account.wallet) == address(0)) return flaw == 0;
        bool read = flaw == 0 || flaw == 6 || flaw == 8;
        return read && account.wallet.mood() == FickleWallet.Mood.Sound;
    }

    // ------------------------------------------------------------------ going through

    function _one(bytes32 id) internal pure returns (bytes32[] memory subjects) {
        subjects = new bytes32[](1);
        subjects[0] = id;
    }

    function _two(bytes32 id, bytes32 other) internal pure returns (bytes32[] memory subjects) {
        subjects = new bytes32[](2);
        (subjects[0], subjects[1]) = (id, other);
    }

    /// @dev Sends it, and insists on the outcome: success when `err` is empty, else exactly this error.
    function _send(
        address caller,
        bytes memory data,
        bytes memory err,
        bytes32[] memory subjects
    ) internal returns (bytes memory answer) {
        bool ok;
        intent.caller = caller;
        SubscriptionState[] memory states;
        (ok, answer, states) = _watched(data, subjects, AMPLE_GAS);
        if (ok ? err.length != 0 : keccak256(answer) != keccak256(err)) revert Unexpected("outcome", err, answer);
        if (gasUsed > MOST_PER_ACT && !_someWalletBurns()) _breach(18, "an act cost more than its token calls may");
        for (uint256 i = 0; i < subjects.length; ++i) _settleUp(subjects[i], states[i]);
        if (ok) _sawToken(subjects);
        else _sawMoneyMissing(bytes4(answer));
        delete intent;
    }

    /// @dev A wallet that burns gas over its own signature costs the sender: that act is its own transaction.
    function _someWalletBurns() private view returns (bool) {
        return
            subscribers[2].wallet.mood() == FickleWallet.Mood.BurnsGas ||
            subscribers[3].wallet.mood() == FickleWallet.Mood.BurnsGas;
    }

    /// @dev Compares the record and its subscriber's money with the model.
    function _settleUp(bytes32 id, SubscriptionState memory state) internal view {
        _compare(id, state);
        Record storage r = records[id];
        if (r.subscriber == address(0)) return;
        address token = _planOf(r.planId).terms.token;
        if (token != address(0)) _compareMoney(token, r.subscriber);
        if (token != address(0)) _compareMoney(token, _planOf(r.planId).terms.payTo);
    }

    function _pass(Entry memory entry, bytes memory err, bytes32 id, bytes32[] memory subjects) internal {
        if (records[id].cancelled) _saw(Premise.ActOnCancelled);
        if (_planOf(records[id].planId).stopped) _saw(Premise.ActOnStopped);
        if (records[id].until != 0 && records[id].until <= clock) _saw(Premise.UntilReached);
        if (entry.err.length == 0) intent.subscriber = entry.subscriber;
        _send(entry.caller, entry.data, err, subjects);
        if (!entry.signed || err.length != 0) return;
        _saw(Premise.ActSigned);
        if (address(_accountOf(records[id].subscriber).wallet) != address(0)) _saw(Premise.ActSignedByWallet);
        // At the last version a cancellation does not void itself; it cannot be repeated to any effect either.
        if (entry.version < LAST_VERSION) spentSignatures.push(Spent(entry.data, id, entry.version));
    }

    function _sawMoneyMissing(bytes4 reason) internal {
        if (reason == ITurnpike.InsufficientFunds.selector) _saw(Premise.FundsMissing);
        else if (reason == ITurnpike.InsufficientApproval.selector) _saw(Premise.ApprovalMissing);
        else if (reason == ITurnpike.TransferFailed.selector) _sawFault();
    }

    function _sawFault() internal {
        FickleToken.Fault fault = fickle.fault();
        if (fault == FickleToken.Fault.BurnsGas || fault == FickleToken.Fault.BurnsGasBlind) {
            _saw(Premise.TokenBurnsGas);
        } else if (
            fault == FickleToken.Fault.RevertsWithMegabytes || fault == FickleToken.Fault.MovesThenReturnsMegabytes
        ) {
            _saw(Premise.TokenReturnsMegabytes);
        } else if (fault >= FickleToken.Fault.MovesThenReturnsFalse) {
            _saw(Premise.TokenLies);
        }
    }

    function _sawToken(bytes32[] memory subjects) private {
        if (claimed == 0 || fickle.fault() != FickleToken.Fault.Reenters) return;
        if (_planOf(records[subjects[0]].planId).terms.token == address(fickle)) _saw(Premise.TokenReenters);
    }
}
