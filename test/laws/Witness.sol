// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike} from "../../contracts/interfaces/ITurnpike.sol";
import {SubscriptionState} from "../../contracts/interfaces/ITurnpikeLens.sol";
import {Premise} from "./Premises.sol";
import {Lives} from "./Lives.sol";
import {Log, vm} from "./Vm.sol";

/// @notice Watches each step from outside, by its logs, its transfers and the slots that it wrote.
abstract contract Witness is Lives {
    mapping(bytes32 idHash => uint256) internal lastVersion;
    /// @dev What each payee is owed by all charges and debits ever, for each token.
    mapping(address token => mapping(address payee => uint256)) internal owed;
    mapping(bytes32 slot => bytes32 idHash) internal slotOwner;
    mapping(bytes32 idHash => bytes32[3]) internal slotsOf; // the record's, the allowance's, the next boundary's
    uint256 internal claimed; // charges and debits in the last step
    uint256 internal gasUsed; // by the last step

    // ------------------------------------------------------------------ one step

    /// @dev Runs `data` as `intent.caller`, watched. `subjects` are the records it may touch; `states` what they are then.
    function _watched(
        bytes memory data,
        bytes32[] memory subjects,
        uint256 gasGiven
    ) internal returns (bool ok, bytes memory answer, SubscriptionState[] memory states) {
        ++step;
        for (uint256 i = 0; i < subjects.length; ++i) _learnSlots(subjects[i]);
        bool[] memory plain = _plainAmong(subjects);
        vm.recordLogs();
        vm.record();
        vm.prank(intent.caller);
        gasUsed = gasleft();
        (ok, answer) = address(turnpike).call{gas: gasGiven}(data);
        gasUsed -= gasleft();
        (bytes32[] memory reads, bytes32[] memory writes) = vm.accesses(address(turnpike));
        vm.stopRecord();
        Log[] memory logs = vm.getRecordedLogs();
        _judgeWrites(writes, subjects);
        if (!_mayUseNext(bytes4(data))) _judgeReads(reads, subjects, plain);
        // What was recorded includes the logs of frames that reverted.
        bytes4 selector = bytes4(data);
        if (!ok) delete logs;
        else if (selector == ITurnpike.renewBatch.selector || selector == ITurnpike.debitBatch.selector) {
            logs = _surviving(logs, abi.decode(answer, (bytes4[])));
        }
        _judgeLogs(logs);
        if (subjects.length == 0) return (ok, answer, states);
        states = lens.getStates(subjects);
        for (uint256 i = 0; i < subjects.length; ++i) _judgeRecord(subjects[i], states[i]);
    }

    /// @dev Leaves out the logs of items that failed. An item's logs begin with Turnpike's, of which the last states the
    /// charge, and the token's follow; a failed item's are those up to the log that reports its failure.
    function _surviving(Log[] memory logs, bytes4[] memory reasons) private view returns (Log[] memory kept) {
        kept = new Log[](logs.length);
        uint256 count;
        uint256 next;
        for (uint256 i = 0; i < reasons.length; ++i) {
            if (reasons[i] == 0) {
                while (!_tellsCharge(logs[next])) kept[count++] = logs[next++];
                kept[count++] = logs[next++];
                while (next < logs.length && logs[next].emitter != address(turnpike)) kept[count++] = logs[next++];
            } else {
                while (!_tellsFailure(logs[next])) ++next;
                kept[count++] = logs[next++];
            }
        }
        assembly {
            mstore(kept, count)
        }
    }

    function _tellsCharge(Log memory log) private view returns (bool) {
        bytes32 topic = log.topics[0];
        return
            log.emitter == address(turnpike) &&
            (topic == ITurnpike.Renewed.selector || topic == ITurnpike.Debited.selector);
    }

    function _tellsFailure(Log memory log) private view returns (bool) {
        bytes32 topic = log.topics[0];
        return
            log.emitter == address(turnpike) &&
            (topic == ITurnpike.RenewalFailed.selector || topic == ITurnpike.DebitFailed.selector);
    }

    /// @dev Finds where a record and its allowance are stored, by looking which slots their views read.
    function _learnSlots(bytes32 id) private {
        if (slotsOf[id][0] != bytes32(0)) return;
        vm.record();
        lens.getSubscription(id);
        (bytes32[] memory reads, ) = vm.accesses(address(turnpike));
        for (uint256 i = 0; i < 3; ++i) {
            slotsOf[id][i] = reads[i];
            slotOwner[reads[i]] = id;
        }
    }

    /// @dev The three words, as stored.
    function _words(bytes32 id) internal view returns (bytes32) {
        bytes32[3] storage slots = slotsOf[id];
        bytes32[3] memory words;
        for (uint256 i = 0; i < 3; ++i) words[i] = vm.load(address(turnpike), slots[i]);
        return keccak256(abi.encode(words));
    }

    // ------------------------------------------------------------------ what was read

    /// @dev Neither an end nor a change is set: by the life, not by the flags. A record that was rekeyed away keeps the
    /// flag of its end, whatever its life does at the new record.
    function _plainAmong(bytes32[] memory subjects) private view returns (bool[] memory plain) {
        plain = new bool[](subjects.length);
        for (uint256 i = 0; i < subjects.length; ++i) {
            Life storage life = lives[lifeOf[subjects[i]]];
            bool current = lifeOf[subjects[i]] != 0 && !tombstone[subjects[i]];
            plain[i] = current && life.until == 0 && life.nextPlanId == bytes32(0);
        }
    }

    /// @dev What sets the next boundary writes there.
    function _mayUseNext(bytes4 selector) private view returns (bool) {
        return
            selector == ITurnpike.setNext.selector ||
            (selector == ITurnpike.subscribe.selector && intent.until != 0) ||
            selector == ITurnpike.multicall.selector;
    }

    function _judgeReads(bytes32[] memory reads, bytes32[] memory subjects, bool[] memory plain) private {
        for (uint256 i = 0; i < plain.length; ++i) if (plain[i]) _saw(Premise.PlainRecordRead);
        for (uint256 i = 0; i < reads.length; ++i) {
            for (uint256 k = 0; k < subjects.length; ++k) {
                if (plain[k] && reads[i] == slotsOf[subjects[k]][2])
                    _breach(34, "a record without a next boundary read it");
            }
        }
    }

    function _judgeWrites(bytes32[] memory writes, bytes32[] memory subjects) private {
        for (uint256 i = 0; i < writes.length; ++i) {
            bytes32 owner = slotOwner[writes[i]];
            if (owner == bytes32(0)) {
                if (!intent.ofPlans) _breach(15, "an act on a subscription wrote elsewhere");
                continue;
            }
            bool mine = false;
            for (uint256 k = 0; k < subjects.length; ++k) mine = mine || subjects[k] == owner;
            if (!mine) _breach(20, "an act wrote another subscription's record");
        }
    }

    function _judgeRecord(bytes32 id, SubscriptionState memory state) private {
        uint256 version = state.subscription.version;
        if (version < lastVersion[id]) _breach(13, "a version went down");
        lastVersion[id] = version;
        Life storage life = lives[lifeOf[id]];
        if (lifeOf[id] == 0 || tombstone[id]) return;
        if (state.subscription.paidThrough != life.paidThrough) _breach(4, "paidThrough moved without a charge");
        if (state.subscription.anchorDay != life.anchor) _breach(25, "another anchor than the period's start");
        if (state.subscription.until != life.until) _breach(27, "an end moved without its subscriber");
        if (state.subscription.nextPlanId != life.nextPlanId) _breach(28, "a scheduled change came or went by itself");
        if (state.subscription.planId != life.planId) _breach(28, "another plan than was changed to");
        if (life.debited == 0 && state.allowance.spent != 0) _breach(9, "a cycle began with something spent");
    }

    // ------------------------------------------------------------------ what the logs say

    function _judgeLogs(Log[] memory logs) private {
        Movement[] memory claims = new Movement[](logs.length);
        Movement[] memory moves = new Movement[](logs.length);
        uint256 claimCount;
        uint256 moveCount;
        for (uint256 i = 0; i < logs.length; ++i) {
            if (logs[i].emitter == address(turnpike)) {
                Movement memory claim = _judgeEvent(logs[i]);
                if (claim.amount != 0) claims[claimCount++] = claim;
                _replay(logs[i]);
            } else if (logs[i].topics[0] == keccak256("Transfer(address,address,uint256)")) {
                moves[moveCount++] = _movement(logs[i]);
            }
        }
        claimed = claimCount;
        _judgeMovements(claims, claimCount, moves, moveCount);
    }

    function _movement(Log memory log) internal pure returns (Movement memory m) {
        m.token = log.emitter;
        m.from = address(uint160(uint256(log.topics[1])));
        m.to = address(uint160(uint256(log.topics[2])));
        m.amount = abi.decode(log.data, (uint256));
    }

    /// @dev Each charge or debit is one transfer of its amount, and there is no other.
    function _judgeMovements(
        Movement[] memory claims,
        uint256 claimCount,
        Movement[] memory moves,
        uint256 moveCount
    ) private {
        for (uint256 i = 0; i < claimCount; ++i) {
            owed[claims[i].token][claims[i].to] += claims[i].amount;
            if (!_match(claims[i], moves, moveCount)) _breach(7, "a charge or debit without its exact transfer");
        }
        for (uint256 i = 0; i < moveCount; ++i) {
            Movement memory m = moves[i];
            if (m.to == address(turnpike) || m.to == address(settler)) _breach(1, "Turnpike was paid");
            // A fee that the token takes from the payee is the token's affair.
            if (!m.matched && m.to != fickle.FEE_SINK()) _breach(21, "a transfer that no charge or debit explains");
        }
    }

    function _match(Movement memory claim, Movement[] memory moves, uint256 moveCount) private pure returns (bool) {
        for (uint256 i = 0; i < moveCount; ++i) {
            Movement memory m = moves[i];
            if (m.matched || m.token != claim.token || m.from != claim.from) continue;
            if (m.to != claim.to || m.amount != claim.amount) continue;
            m.matched = true;
            return true;
        }
        return false;
    }
}
