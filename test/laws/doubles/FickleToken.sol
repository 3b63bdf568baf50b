// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Auth, ITurnpike} from "../../../contracts/interfaces/ITurnpike.sol";
import {PaxosToken} from "../../../contracts/test/FaultyTokens.sol";

/// @notice A token that can be set to misbehave: one fault at a time, from one call to the next.
/// @dev Its logs are honest, whatever its answers are. It is one of those that do not revert on a used authorization.
contract FickleToken is PaxosToken {
    enum Fault {
        None,
        ReturnsNothing,
        TakesFee,
        Reenters,
        Wasteful,
        ReturnsFalse,
        Reverts,
        RevertsWithMegabytes,
        BurnsGas,
        BurnsGasBlind,
        MovesThenReturnsFalse,
        MovesThenReturnsTwo,
        MovesThenReturnsTwoWords,
        MovesThenReturnsMegabytes
    }

    address public constant FEE_SINK = address(0xfee);

    Fault public fault;
    ITurnpike public turnpike;
    bytes32 public echo; // the record that `Reenters` calls back for

    constructor(ITurnpike turnpike_) {
        turnpike = turnpike_;
    }

    function setFault(Fault fault_) external {
        fault = fault_;
    }

    function setEcho(bytes32 idHash) external {
        echo = idHash;
    }

    /// @notice The truth about a balance, whatever the fault.
    function trueBalanceOf(address account) external view returns (uint256) {
        return super.balanceOf(account);
    }

    /// @notice The truth about an approval, whatever the fault.
    function trueAllowance(address account, address spender) external view returns (uint256) {
        return super.allowance(account, spender);
    }

    function balanceOf(address account) public view override returns (uint256) {
        _sulk();
        return super.balanceOf(account);
    }

    function allowance(address account, address spender) public view override returns (uint256) {
        _sulk();
        return super.allowance(account, spender);
    }

    function transferFrom(address from, address to, uint256 amount) public override returns (bool) {
        if (fault == Fault.ReturnsFalse) return false;
        _failBefore();
        super.transferFrom(from, to, amount);
        if (fault == Fault.TakesFee) _transfer(to, FEE_SINK, amount / 100);
        _meddle();
        _answerOddly();
        return true;
    }

    function _authorized(
        bytes32 typeHash,
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes memory signature
    ) internal override {
        _failBefore();
        require(block.timestamp > validAfter && block.timestamp < validBefore, "FickleToken: window");
        bool isFresh = !_used[from][nonce];
        super._authorized(typeHash, from, to, value, validAfter, validBefore, nonce, signature);
        if (isFresh) _meddle();
        _answerOddly();
    }

    function _meddle() private {
        if (fault == Fault.Reenters) _reenter();
        if (fault == Fault.Wasteful) _waste();
    }

    /// @dev Asks for everything that a second charge could come from; Turnpike has to withstand all of it.
    function _reenter() private {
        bytes32[] memory ids = new bytes32[](1);
        ids[0] = echo;
        try turnpike.renew(echo) {} catch {}
        try turnpike.debit(echo, 1, 0) {} catch {}
        Auth memory none;
        try turnpike.resume(echo, type(uint256).max, none) {} catch {}
        try turnpike.cancel(echo, true, none) {} catch {}
    }

    /// @dev Spends some 138,000 gas, and nearly no time.
    function _waste() private pure {
        assembly {
            mstore(0x3c000, 1)
        }
    }

    function _failBefore() private view {
        if (fault == Fault.Reverts) revert("FickleToken: paused");
        if (fault == Fault.RevertsWithMegabytes) {
            assembly {
                revert(0x00, 0x18000)
            }
        }
        if (fault == Fault.BurnsGas || fault == Fault.BurnsGasBlind) {
            assembly {
                invalid()
            }
        }
    }

    /// @dev With BurnsGasBlind, even the views burn all they are given.
    function _sulk() private view {
        if (fault == Fault.BurnsGasBlind) {
            assembly {
                invalid()
            }
        }
    }

    /// @dev Ends the call with the answer that the fault is about, if it is about one.
    function _answerOddly() private view {
        Fault f = fault;
        assembly {
            mstore(0x00, 1)
            mstore(0x20, 1)
            switch f
            case 1 {
                return(0x00, 0x00) // ReturnsNothing
            }
            case 10 {
                mstore(0x00, 0)
                return(0x00, 0x20) // MovesThenReturnsFalse
            }
            case 11 {
                mstore(0x00, 2)
                return(0x00, 0x20) // MovesThenReturnsTwo
            }
            case 12 {
                return(0x00, 0x40) // MovesThenReturnsTwoWords
            }
            case 13 {
                return(0x00, 0x18000) // MovesThenReturnsMegabytes: as much as the gas allows
            }
        }
    }
}
