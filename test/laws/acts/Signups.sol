// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike, NextTerms, Signup, Terms} from "../../../contracts/interfaces/ITurnpike.sol";
import {Permit, Voucher} from "../../../contracts/interfaces/TurnpikeTypes.sol";
import {Premise} from "../Premises.sol";
import {vm} from "../Vm.sol";
import {Unexpected} from "../World.sol";
import {Changes} from "./Changes.sol";

/// @notice New subscriptions: called or signed, with permits, vouchers and ends or without, wanted or squatted; and
/// idHashes that are voided instead.
abstract contract Signups is Changes {
    struct SpentSignup {
        bytes data;
        bytes32 id;
        bytes32 planId;
        address subscriber;
        uint256 deadline;
        bytes32 shown; // the terms that were signed
        address signer; // of the voucher; zero: none
        uint256 voucherDeadline;
    }

    SpentSignup[] private _spentSignups;

    bytes32 private constant SUBSCRIBE = keccak256(
        "Subscribe(address subscriber,bytes32 planId,address token,address payTo,uint256 amount,uint256 interval,string unit,uint256 firstAmount,uint256 firstInterval,uint256 maxOverage,uint256 until,bytes32 secretHash,uint256 deadline)"
    );
    bytes32 private constant VOUCHER_OFFER = keccak256(
        "Voucher(bytes32 planId,address subscriber,bytes32 secretHash,address token,uint256 firstAmount,uint256 firstInterval,uint256 deadline)"
    );
    bytes32 private constant VOID = keccak256("Void(address subscriber,bytes32 secretHash,uint256 deadline)");
    bytes32 private constant PERMIT = keccak256(
        "Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)"
    );

    function _wish(uint256 seed) private returns (Wish memory w) {
        w.subscriber = subscribers[_draw(seed, subscribers.length)].self;
        w.planId = _draw(seed, 32) == 0 ? bytes32(seed) : plans[_draw(seed, plans.length)].id;
        w.secretHash = keccak256(abi.encode("secret", seed, step));
        w.cap = _someCap(seed);
        bytes32 used = ids.length == 0 ? bytes32(0) : ids[_draw(seed, ids.length)];
        if (voids.length != 0 && _draw(seed, 4) == 0) used = voids[_draw(seed, voids.length)];
        if (ids.length >= MOST_RECORDS || (used != bytes32(0) && _draw(seed, 7) == 0)) {
            // An id that was used: also a cancelled, voided or rekeyed one is never free again.
            w.subscriber = records[used].subscriber;
            w.secretHash = secretHashOf[used];
        }
        w.id = keccak256(abi.encode(w.subscriber, w.secretHash));
    }

    function subscribe(uint256 seed) external atClock {
        if (_draw(seed, 6) == 0) return _squat(seed);
        Wish memory w = _wish(seed);
        bytes memory err = _expectSubscribe(w);
        intent.shown = _planOf(w.planId).terms;
        _finish(w, w.subscriber, _own(w), err);
    }

    /// @dev A stranger takes the secretHash that it saw in the mempool: bound to the stranger, it hinders nobody.
    function _squat(uint256 seed) private {
        Wish memory w = _wish(seed);
        if (ids.length >= MOST_RECORDS) return;
        Wish memory squat = _copyOf(w);
        squat.subscriber = subscribers[_draw(seed, subscribers.length)].self;
        squat.id = keccak256(abi.encode(squat.subscriber, w.secretHash));
        squat.cap = 0;
        _saw(Premise.ActOfStranger);
        bytes memory err = _expectSubscribe(squat);
        intent.shown = _planOf(w.planId).terms;
        _finish(squat, squat.subscriber, _own(squat), err);
        if (squat.subscriber == w.subscriber || records[w.id].subscriber != address(0)) return;
        err = _expectSubscribe(w);
        intent.shown = _planOf(w.planId).terms;
        _finish(w, w.subscriber, _own(w), err);
    }

    function _signupOf(address subscriber, bytes32 planId, bytes32 secretHash) internal pure returns (bytes memory) {
        Wish memory w;
        (w.subscriber, w.planId, w.secretHash) = (subscriber, planId, secretHash);
        return _own(w);
    }

    /// @dev The subscriber's own call.
    function _own(Wish memory w) private pure returns (bytes memory) {
        Signed memory unsigned;
        Voucher memory noVoucher;
        Permit memory noPermit;
        return _call(w, unsigned, noVoucher, noPermit);
    }

    function _call(
        Wish memory w,
        Signed memory s,
        Voucher memory voucher,
        Permit memory permit
    ) private pure returns (bytes memory) {
        return
            abi.encodeCall(
                ITurnpike.subscribe,
                (
                    w.subscriber,
                    Signup(w.planId, w.secretHash, w.cap, uint40(w.until)),
                    voucher.signer == address(0) ? bytes("") : abi.encode(voucher),
                    permit.deadline == 0 ? bytes("") : abi.encode(permit),
                    s.deadline,
                    s.signature
                )
            );
    }

    function _copyOf(Wish memory w) private pure returns (Wish memory) {
        return abi.decode(abi.encode(w), (Wish));
    }

    function _finish(Wish memory w, address caller, bytes memory data, bytes memory err) private {
        if (err.length == 0) {
            secretHashOf[w.id] = w.secretHash;
            _saw(Premise.Signup);
        } else if (bytes4(err) == ITurnpike.IdHashUsed.selector) {
            _saw(Premise.SignupOfUsedId);
            if (voided[w.id]) _saw(Premise.SignupOfVoided);
        } else if (bytes4(err) == ITurnpike.PlanDeprecated.selector) {
            _saw(Premise.SignupToDeprecated);
        } else if (bytes4(err) == ITurnpike.CapTooLarge.selector) {
            _saw(Premise.CapTooLarge);
        }
        (intent.subscriber, intent.planId, intent.cap) = (w.subscriber, w.planId, w.cap);
        (intent.signedUntil, intent.withVoucher) = (w.until, w.intro);
        if (intent.until == 0) intent.until = w.until;
        (intent.firstAmount, intent.firstInterval) = (w.firstAmount, w.firstInterval);
        fickle.setEcho(w.id);
        bytes memory answer = _send(caller, data, err, _one(w.id));
        if (turnpike.idHashOf(w.subscriber, w.secretHash) != w.id) revert Unexpected("idHashOf", abi.encode(w.id), "");
        if (err.length == 0 && answer.length == 32 && abi.decode(answer, (bytes32)) != w.id) {
            revert Unexpected("idHash", abi.encode(w.id), answer);
        }
    }

    // ------------------------------------------------------------------ signed

    /// @dev A subscriber's signature for a wish, and what comes of it.
    struct Signed {
        uint256 deadline;
        bytes signature;
        Terms shown;
        bytes err;
    }

    /// @dev `w` has what its message has; the terms may be others than the plan's.
    function _signWish(uint256 seed, Wish memory w) private returns (Signed memory s) {
        Account storage account = _accountOf(w.subscriber);
        uint256 flaw = _draw(seed, 6) == 0 ? 1 + _draw(seed, FLAWS) : 0;
        s.deadline = flaw == 1 ? clock - 1 : _someDeadline(seed);
        s.shown = _shown(seed, w.planId);
        bytes32 structHash = keccak256(
            abi.encodePacked(
                abi.encode(SUBSCRIBE, flaw == 2 ? subscribers[0].self : w.subscriber, w.planId),
                _termsWords(s.shown),
                _wishWords(w, s.shown),
                w.secretHash,
                s.deadline
            )
        );
        s.signature = _flawed(account, structHash, flaw);
        bool isTrue = _isTrue(s.shown, w.planId);
        if (planAt[w.planId] == 0) {
            s.err = abi.encodeWithSelector(ITurnpike.UnknownPlan.selector, w.planId);
        } else if (flaw == 1) {
            s.err = abi.encodeWithSelector(ITurnpike.SignatureExpired.selector, s.deadline);
        } else if (!_isAccepted(account, flaw) || !isTrue) {
            s.err = abi.encodeWithSelector(ITurnpike.InvalidSignature.selector, w.subscriber);
        }
        if (s.err.length != 0) _saw(isTrue ? Premise.SignatureFlawed : Premise.ShownTermsFlawed);
    }

    function _wishWords(Wish memory w, Terms memory shown) private pure returns (bytes memory) {
        uint256 firstAmount = w.intro ? w.firstAmount : shown.amount;
        return abi.encode(firstAmount, w.intro ? w.firstInterval : 0, w.cap, w.until);
    }

    function subscribeSigned(uint256 seed) external atClock {
        Wish memory w = _wish(seed);
        if (_draw(seed, 3) == 0) {
            // One that may come with a permit.
            w.subscriber = subscribers[_draw(seed, 2)].self;
            w.planId = plans[2 * _draw(seed, 4)].id;
            w.id = keccak256(abi.encode(w.subscriber, w.secretHash));
            if (ids.length >= MOST_RECORDS && records[w.id].subscriber == address(0)) return;
        }
        _subscribeSigned(seed, w);
    }

    /// @dev By signatures that were made before or after the plan's payee moved.
    function _useMoved(uint256 seed, bytes32 planId) internal {
        Wish memory w = _wish(seed);
        w.planId = planId;
        _subscribeSigned(seed, w);
        uint256 place = _draw(seed, ids.length);
        uint256 changes = 0;
        for (uint256 i = 0; i < ids.length && changes < 3; ++i) {
            bytes32 id = ids[(place + i) % ids.length];
            if (!_isPaid(id) || !_isKin(_planOf(records[id].planId), _planOf(planId))) continue;
            _changeTo(seed, id, planId);
            ++changes;
        }
    }

    function _subscribeSigned(uint256 seed, Wish memory w) private {
        Signed memory s = _signWish(seed, w);
        Permit memory permit;
        bytes memory err = s.err;
        if (err.length == 0) (permit, err) = _withPermit(seed, w, _accountOf(w.subscriber));
        Voucher memory none;
        bytes memory data = _call(w, s, none, permit);
        intent.shown = s.shown;
        if (err.length == 0) _sawSigned(w, s, data, none);
        _finish(w, RELAYER, data, err);
    }

    function _sawSigned(Wish memory w, Signed memory s, bytes memory data, Voucher memory v) private {
        _saw(Premise.ActSigned);
        if (address(_accountOf(w.subscriber).wallet) != address(0)) _saw(Premise.ActSignedByWallet);
        bytes32 shown = keccak256(_termsWords(s.shown));
        _spentSignups.push(SpentSignup(data, w.id, w.planId, w.subscriber, s.deadline, shown, v.signer, v.deadline));
    }

    // ------------------------------------------------------------------ with vouchers and ends

    /// @notice A signup with an end of the subscriber's and a first period of the provider's, each at times.
    function subscribeOffered(uint256 seed) external atClock {
        Wish memory w = _wish(seed);
        if (_draw(seed, 3) != 0) w.until = clock - 1 + _draw(seed, 400 days);
        Voucher memory voucher;
        bytes memory voucherErr;
        if (_draw(seed, 3) != 0) (voucher, voucherErr) = _someVoucher(seed, w);
        bool signed = _draw(seed, 2) == 0;
        Signed memory s;
        if (signed) s = _signWish(seed, w);
        else if (planAt[w.planId] == 0) s.err = abi.encodeWithSelector(ITurnpike.UnknownPlan.selector, w.planId);
        // The voucher is judged before the signature.
        bytes memory err = voucherErr.length != 0 && planAt[w.planId] != 0 ? voucherErr : s.err;
        Permit memory permit;
        if (err.length == 0 && signed) (permit, err) = _withPermit(seed, w, _accountOf(w.subscriber));
        else if (err.length == 0) err = _expectSubscribe(w);
        bytes memory data = _call(w, s, voucher, permit);
        if (err.length == 0 && signed) _sawSigned(w, s, data, voucher);
        if (signed) intent.shown = s.shown;
        else intent.shown = _planOf(w.planId).terms;
        if (err.length == 0 && w.until != 0) _saw(Premise.UntilSet);
        if (err.length == 0 && !signed && w.until == 0) return _finishWithNext(seed, w, data);
        _finish(w, signed ? RELAYER : w.subscriber, data, err);
        if (err.length == 0 && w.intro) _change(seed, w.id);
    }

    /// @dev In one transaction, the subscriber signs up and sets an end: the events say that these were two acts.
    function _finishWithNext(uint256 seed, Wish memory w, bytes memory data) private {
        uint256 until = clock + 1 + _draw(seed, 400 days);
        NextTerms memory noTerms;
        Terms memory noPlan;
        bytes[] memory calls = new bytes[](2);
        calls[0] = data;
        calls[1] = abi.encodeCall(ITurnpike.setNext, (w.id, uint40(until), bytes32(0), noTerms, _unsigned()));
        _expectSetNext(w.id, until, bytes32(0), noPlan);
        intent.until = until;
        _saw(Premise.MulticallSignup);
        _finish(w, w.subscriber, abi.encodeCall(ITurnpike.multicall, (calls)), "");
    }

    /// @dev Mostly by one with the right, for this signup; at times for another, too dear, too late, or by no one.
    function _someVoucher(uint256 seed, Wish memory w) private returns (Voucher memory v, bytes memory err) {
        Terms storage terms = _planOf(w.planId).terms;
        uint256 flaw = _draw(seed, 5) == 0 ? 1 + _draw(seed, 9) : 0;
        uint256 place =
            _draw(seed, 4) == 0
                ? 2
                : _planOf(w.planId).provider == providers[0]
                    ? 0
                    : 1;
        v.signer = vm.addr(issuerKeys[place]);
        v.firstAmount = uint96(_draw(seed, 2) == 0 ? 0 : _draw(seed, uint256(terms.amount) + 1));
        if (_draw(seed, 16) == 0) v.firstAmount = terms.amount;
        if (_draw(seed, 2) == 0) v.firstInterval = uint32(1 + _draw(seed, 60 days));
        // The plan's own period, spelled out.
        if (_draw(seed, 6) == 0 && terms.interval <= 366 days) v.firstInterval = terms.interval;
        if (flaw == 8 || _draw(seed, 16) == 0) v.firstInterval = 366 days;
        if (flaw == 8) v.firstInterval += 1 + uint32(_draw(seed, 2 ** 31));
        if (flaw == 1) v.firstAmount = terms.amount + 1;
        v.deadline = flaw == 2 ? clock - 1 : clock + _draw(seed, 2 days);
        (w.intro, w.firstAmount, w.firstInterval) = (true, v.firstAmount, v.firstInterval);
        bytes32 structHash = keccak256(
            abi.encode(
                VOUCHER_OFFER,
                w.planId,
                flaw == 3 ? BYSTANDER : w.subscriber,
                flaw == 4 ? bytes32(0) : w.secretHash,
                flaw == 9 ? address(0x9999) : terms.token,
                flaw == 5 ? v.firstAmount + 1 : v.firstAmount,
                flaw == 6 ? v.firstInterval + 1 : v.firstInterval,
                v.deadline
            )
        );
        bytes32 separator = _domainSeparator(address(turnpike), block.chainid);
        v.signature = _signature(flaw == 7 ? 0xbad : issuerKeys[place], separator, structHash);
        bool sound = flaw == 0 || flaw == 1 || flaw == 2;
        if (sound) offered[_offerKey(v.signer, w.id, w.planId, v.firstAmount, v.firstInterval)] = v.deadline;
        if (flaw == 8) {
            err = abi.encodeWithSelector(ITurnpike.FirstIntervalTooLong.selector, v.firstInterval, 366 days);
        } else if (v.firstAmount > terms.amount || _isRegular(v, terms) || rights[w.planId][v.signer] & VOUCHER == 0) {
            err = abi.encodeWithSelector(ITurnpike.InvalidVoucher.selector, w.planId, v.signer);
        } else if (flaw == 2) {
            err = abi.encodeWithSelector(ITurnpike.SignatureExpired.selector, v.deadline);
        } else if (!sound) {
            err = abi.encodeWithSelector(ITurnpike.InvalidSignature.selector, v.signer);
        }
        if (err.length != 0) _saw(Premise.VoucherFlawed);
    }

    /// @dev Whether the first period is what the plan has without a voucher.
    function _isRegular(Voucher memory v, Terms storage terms) private view returns (bool) {
        if (v.firstAmount != terms.amount) return false;
        return v.firstInterval == 0 || (!terms.months && v.firstInterval == terms.interval);
    }

    // ------------------------------------------------------------------ permits

    /// @dev With a permit or without, and what then is to be expected. Only plain accounts sign permits here.
    function _withPermit(
        uint256 seed,
        Wish memory w,
        Account storage account
    ) private returns (Permit memory permit, bytes memory err) {
        bool onSound = planAt[w.planId] != 0 && _planOf(w.planId).terms.token == address(sound);
        if (!onSound || account.self.code.length != 0 || _draw(seed, 3) == 0) {
            return (permit, _expectSubscribe(w));
        }
        uint256 before = approvals[address(sound)][w.subscriber];
        uint256 value = _draw(seed, 4) == 0 ? _draw(seed, 1000) : type(uint256).max;
        permit = _signPermit(account, value);
        if (_draw(seed, 8) == 0) {
            permit.signature[40] ^= 0x01; // Not a signature: the approval given before has to suffice.
            return (permit, _expectSubscribe(w));
        }
        approvals[address(sound)][w.subscriber] = value;
        if (_draw(seed, 2) == 0) {
            // Someone took the permit out of the mempool and submitted it alone.
            _submitPermit(w.subscriber, permit);
            before = value;
            _saw(Premise.SignupPermitSubmittedFirst);
        }
        err = _expectSubscribe(w);
        if (err.length == 0) _saw(Premise.SignupByPermit);
        else approvals[address(sound)][w.subscriber] = before;
    }

    function _signPermit(Account storage account, uint256 value) private view returns (Permit memory permit) {
        permit.value = value;
        permit.deadline = clock + 1 hours;
        bytes32 structHash = keccak256(
            abi.encode(PERMIT, account.self, address(turnpike), value, sound.nonces(account.self), permit.deadline)
        );
        permit.signature = _signature(account.key, sound.DOMAIN_SEPARATOR(), structHash);
    }

    function _submitPermit(address owner, Permit memory permit) private {
        (bytes32 r, bytes32 s) = abi.decode(permit.signature, (bytes32, bytes32));
        sound.permit(owner, address(turnpike), permit.value, permit.deadline, uint8(permit.signature[64]), r, s);
    }

    // ------------------------------------------------------------------ replayed and voided

    function _replaySignup(uint256 seed) internal override {
        if (_spentSignups.length == 0) return;
        SpentSignup storage spent = _spentSignups[_draw(seed, _spentSignups.length)];
        _saw(Premise.SignatureReplayed);
        // The permit in it, if there is one, is used: what it could change has been changed.
        _send(RELAYER, spent.data, _expectReplay(spent), _one(spent.id));
    }

    function _expectReplay(SpentSignup storage spent) private view returns (bytes memory) {
        if (spent.signer != address(0)) {
            if (rights[spent.planId][spent.signer] & VOUCHER == 0) {
                return abi.encodeWithSelector(ITurnpike.InvalidVoucher.selector, spent.planId, spent.signer);
            }
            if (clock > spent.voucherDeadline) {
                return abi.encodeWithSelector(ITurnpike.SignatureExpired.selector, spent.voucherDeadline);
            }
        }
        if (clock > spent.deadline) {
            return abi.encodeWithSelector(ITurnpike.SignatureExpired.selector, spent.deadline);
        }
        bool isTrue = spent.shown == keccak256(_termsWords(_planOf(spent.planId).terms));
        if (!isTrue || !_isAccepted(_accountOf(spent.subscriber), 0)) {
            return abi.encodeWithSelector(ITurnpike.InvalidSignature.selector, spent.subscriber);
        }
        if (_planOf(spent.planId).deprecated) return _closed(_planOf(spent.planId));
        return abi.encodeWithSelector(ITurnpike.IdHashUsed.selector, spent.id);
    }

    /// @notice An idHash is used up for nothing, by its subscriber or its signature; a used one cannot be.
    function annul(uint256 seed) external atClock {
        Wish memory w = _wish(seed);
        if (_draw(seed, 4) != 0 && ids.length < MOST_RECORDS) {
            w.secretHash = keccak256(abi.encode("void", seed, step));
            w.id = keccak256(abi.encode(w.subscriber, w.secretHash));
        }
        bytes memory err;
        bytes memory data = abi.encodeCall(ITurnpike.void, (w.subscriber, w.secretHash, 0, ""));
        address caller = w.subscriber;
        if (_draw(seed, 2) == 0) {
            caller = RELAYER;
            (data, err) = _signVoid(seed, w);
        }
        if (err.length == 0) err = _expectVoid(w.subscriber, w.id);
        if (err.length == 0) {
            secretHashOf[w.id] = w.secretHash;
            _saw(Premise.Voided);
        }
        intent.subscriber = w.subscriber;
        _send(caller, data, err, _one(w.id));
    }

    function _signVoid(uint256 seed, Wish memory w) private returns (bytes memory data, bytes memory err) {
        Account storage account = _accountOf(w.subscriber);
        uint256 flaw = _draw(seed, 5) == 0 ? 1 + _draw(seed, FLAWS) : 0;
        uint256 deadline = flaw == 1 ? clock - 1 : _someDeadline(seed);
        address named = flaw == 2 ? subscribers[0].self : w.subscriber;
        bytes memory signature = _flawed(account, keccak256(abi.encode(VOID, named, w.secretHash, deadline)), flaw);
        data = abi.encodeCall(ITurnpike.void, (w.subscriber, w.secretHash, deadline, signature));
        if (flaw == 1) err = abi.encodeWithSelector(ITurnpike.SignatureExpired.selector, deadline);
        else if (!_isAccepted(account, flaw)) {
            err = abi.encodeWithSelector(ITurnpike.InvalidSignature.selector, w.subscriber);
        }
        if (err.length != 0) _saw(Premise.SignatureFlawed);
    }
}
