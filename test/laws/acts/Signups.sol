// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike, Permit} from "../../../contracts/interfaces/ITurnpike.sol";
import {Premise} from "../Premises.sol";
import {vm} from "../Vm.sol";
import {Unexpected} from "../World.sol";
import {Changes} from "./Changes.sol";

/// @notice New subscriptions: called or signed, with a permit or without, wanted or squatted.
abstract contract Signups is Changes {
    struct Wish {
        address subscriber;
        bytes32 planId;
        bytes32 secretHash;
        bytes32 id;
        uint256 cap;
    }

    struct SpentSignup {
        bytes data;
        bytes32 id;
        bytes32 planId;
        address subscriber;
        uint256 deadline;
    }

    SpentSignup[] private _spentSignups;

    bytes32 private constant SUBSCRIBE = keccak256(
        "Subscribe(address subscriber,bytes32 planId,bytes32 secretHash,uint256 maxOverage,uint256 deadline)"
    );
    bytes32 private constant PERMIT = keccak256(
        "Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)"
    );

    function _wish(uint256 seed) private returns (Wish memory w) {
        w.subscriber = subscribers[_draw(seed, subscribers.length)].self;
        w.planId = _draw(seed, 32) == 0 ? bytes32(seed) : plans[_draw(seed, plans.length)].id;
        w.secretHash = keccak256(abi.encode("secret", seed, step));
        w.cap = _someCap(seed);
        bytes32 used = ids.length == 0 ? bytes32(0) : ids[_draw(seed, ids.length)];
        if (ids.length >= MOST_RECORDS || (used != bytes32(0) && _draw(seed, 8) == 0)) {
            // An id that was used: also a cancelled or rekeyed one is never free again.
            w.subscriber = records[used].subscriber;
            w.secretHash = secretHashOf[used];
        }
        w.id = keccak256(abi.encode(w.subscriber, w.secretHash));
    }

    function subscribe(uint256 seed) external atClock {
        if (_draw(seed, 6) == 0) return _squat(seed);
        Wish memory w = _wish(seed);
        bytes memory err = _expectSubscribe(w.subscriber, w.planId, w.id, w.cap);
        _finish(w, w.subscriber, abi.encodeCall(ITurnpike.subscribe, (w.planId, w.secretHash, w.cap)), err);
    }

    /// @dev A stranger takes the secretHash that it saw in the mempool: bound to the stranger, it hinders nobody.
    function _squat(uint256 seed) private {
        Wish memory w = _wish(seed);
        if (ids.length >= MOST_RECORDS) return;
        address squatter = subscribers[_draw(seed, subscribers.length)].self;
        bytes32 squatted = keccak256(abi.encode(squatter, w.secretHash));
        _saw(Premise.ActOfStranger);
        bytes memory err = _expectSubscribe(squatter, w.planId, squatted, 0);
        bytes memory data = abi.encodeCall(ITurnpike.subscribe, (w.planId, w.secretHash, 0));
        _finish(Wish(squatter, w.planId, w.secretHash, squatted, 0), squatter, data, err);
        if (squatter == w.subscriber || records[w.id].subscriber != address(0)) return;
        err = _expectSubscribe(w.subscriber, w.planId, w.id, w.cap);
        _finish(w, w.subscriber, abi.encodeCall(ITurnpike.subscribe, (w.planId, w.secretHash, w.cap)), err);
    }

    function _finish(Wish memory w, address caller, bytes memory data, bytes memory err) private {
        if (err.length == 0) {
            secretHashOf[w.id] = w.secretHash;
            _saw(Premise.Signup);
        } else if (bytes4(err) == ITurnpike.IdHashUsed.selector) {
            _saw(Premise.SignupOfUsedId);
        } else if (bytes4(err) == ITurnpike.PlanDeprecated.selector) {
            _saw(Premise.SignupToDeprecated);
        } else if (bytes4(err) == ITurnpike.CapTooLarge.selector) {
            _saw(Premise.CapTooLarge);
        }
        (intent.subscriber, intent.planId, intent.cap) = (w.subscriber, w.planId, w.cap);
        fickle.setEcho(w.id);
        bytes memory answer = _send(caller, data, err, _one(w.id));
        if (turnpike.idHashOf(w.subscriber, w.secretHash) != w.id) revert Unexpected("idHashOf", abi.encode(w.id), "");
        if (err.length == 0 && abi.decode(answer, (bytes32)) != w.id) {
            revert Unexpected("idHash", abi.encode(w.id), answer);
        }
    }

    // ------------------------------------------------------------------ signed

    function subscribeBySig(uint256 seed) external atClock {
        Wish memory w = _wish(seed);
        if (_draw(seed, 3) == 0) {
            // One that may come with a permit.
            w.subscriber = subscribers[_draw(seed, 2)].self;
            w.planId = plans[2 * _draw(seed, 4)].id;
            w.id = keccak256(abi.encode(w.subscriber, w.secretHash));
            if (ids.length >= MOST_RECORDS && records[w.id].subscriber == address(0)) return;
        }
        Account storage account = _accountOf(w.subscriber);
        uint256 flaw = _draw(seed, 5) == 0 ? 1 + _draw(seed, FLAWS) : 0;
        uint256 deadline = flaw == 1 ? clock - 1 : _someDeadline(seed);
        bytes32 structHash = keccak256(
            abi.encode(
                SUBSCRIBE,
                flaw == 2 ? subscribers[0].self : w.subscriber,
                w.planId,
                w.secretHash,
                w.cap,
                deadline
            )
        );
        bytes memory signature = _flawed(account, structHash, flaw);
        bytes memory err;
        if (flaw == 1) err = abi.encodeWithSelector(ITurnpike.SignatureExpired.selector, deadline);
        else if (!_isAccepted(account, flaw)) {
            err = abi.encodeWithSelector(ITurnpike.InvalidSignature.selector, w.subscriber);
        }
        if (err.length != 0) _saw(Premise.SignatureFlawed);
        Permit memory permit;
        if (err.length == 0) (permit, err) = _withPermit(seed, w, account);
        bytes memory data = abi.encodeCall(
            ITurnpike.subscribeBySig,
            (w.subscriber, w.planId, w.secretHash, w.cap, deadline, signature, permit)
        );
        if (err.length == 0) {
            _saw(Premise.ActSigned);
            if (address(account.wallet) != address(0)) _saw(Premise.ActSignedByWallet);
            _spentSignups.push(SpentSignup(data, w.id, w.planId, w.subscriber, deadline));
        }
        _finish(w, RELAYER, data, err);
    }

    /// @dev With a permit or without, and what then is to be expected. Only plain accounts sign permits here.
    function _withPermit(
        uint256 seed,
        Wish memory w,
        Account storage account
    ) private returns (Permit memory permit, bytes memory err) {
        bool onSound = planAt[w.planId] != 0 && _planOf(w.planId).terms.token == address(sound);
        if (!onSound || account.self.code.length != 0 || _draw(seed, 3) == 0) {
            return (permit, _expectSubscribe(w.subscriber, w.planId, w.id, w.cap));
        }
        uint256 before = approvals[address(sound)][w.subscriber];
        uint256 value = _draw(seed, 4) == 0 ? _draw(seed, 1000) : type(uint256).max;
        permit = _signPermit(account, value);
        if (_draw(seed, 8) == 0) {
            permit.s = bytes32(uint256(1)); // Not a signature: the approval given before has to suffice.
            return (permit, _expectSubscribe(w.subscriber, w.planId, w.id, w.cap));
        }
        approvals[address(sound)][w.subscriber] = value;
        if (_draw(seed, 2) == 0) {
            // Someone took the permit out of the mempool and submitted it alone.
            sound.permit(w.subscriber, address(turnpike), value, permit.deadline, permit.v, permit.r, permit.s);
            before = value;
            _saw(Premise.SignupPermitSubmittedFirst);
        }
        err = _expectSubscribe(w.subscriber, w.planId, w.id, w.cap);
        if (err.length == 0) _saw(Premise.SignupByPermit);
        else approvals[address(sound)][w.subscriber] = before;
    }

    function _signPermit(Account storage account, uint256 value) private view returns (Permit memory permit) {
        permit.value = value;
        permit.deadline = clock + 1 hours;
        bytes32 structHash = keccak256(
            abi.encode(PERMIT, account.self, address(turnpike), value, sound.nonces(account.self), permit.deadline)
        );
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", sound.DOMAIN_SEPARATOR(), structHash));
        (permit.v, permit.r, permit.s) = vm.sign(account.key, digest);
    }

    function _replaySignup(uint256 seed) internal override {
        if (_spentSignups.length == 0) return;
        SpentSignup storage spent = _spentSignups[_draw(seed, _spentSignups.length)];
        bytes memory err = abi.encodeWithSelector(ITurnpike.IdHashUsed.selector, spent.id);
        if (_planOf(spent.planId).deprecated) {
            err = abi.encodeWithSelector(ITurnpike.PlanDeprecated.selector, spent.planId);
        }
        if (!_isAccepted(_accountOf(spent.subscriber), 0)) {
            err = abi.encodeWithSelector(ITurnpike.InvalidSignature.selector, spent.subscriber);
        }
        if (clock > spent.deadline) {
            err = abi.encodeWithSelector(ITurnpike.SignatureExpired.selector, spent.deadline);
        }
        _saw(Premise.SignatureReplayed);
        _send(RELAYER, spent.data, err, _one(spent.id));
    }
}
