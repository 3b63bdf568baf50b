// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ITurnpike} from "../../../contracts/interfaces/ITurnpike.sol";

/// @notice A token that can be told to misbehave: one fault at a time, from one call to the next.
/// @dev Its logs are honest, whatever its answers are. As Paxos's tokens, it does not revert on a used authorization:
/// it says so in a log and moves nothing.
contract FickleToken {
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

    bytes32 private constant TRANSFER_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    address public constant FEE_SINK = address(0xfee);

    Fault public fault;
    ITurnpike public turnpike;
    bytes32 public echo; // the record that `Reenters` calls back for
    mapping(address account => uint256) private _balances;
    mapping(address account => mapping(address spender => uint256)) private _allowances;
    mapping(address account => mapping(bytes32 nonce => bool)) public authorizationState;
    bytes32 public immutable DOMAIN_SEPARATOR;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    event AuthorizationAlreadyUsed(address indexed authorizer, bytes32 indexed nonce);

    constructor(ITurnpike turnpike_) {
        turnpike = turnpike_;
        DOMAIN_SEPARATOR = keccak256(abi.encode("FickleToken", block.chainid, address(this)));
    }

    function setFault(Fault fault_) external {
        fault = fault_;
    }

    function setEcho(bytes32 idHash) external {
        echo = idHash;
    }

    function mint(address to, uint256 amount) external {
        _balances[to] += amount;
        emit Transfer(address(0), to, amount);
    }

    function approve(address spender, uint256 amount) external returns (bool) {
        _allowances[msg.sender][spender] = amount;
        emit Approval(msg.sender, spender, amount);
        return true;
    }

    function transfer(address to, uint256 amount) external returns (bool) {
        _move(msg.sender, to, amount);
        return true;
    }

    function balanceOf(address account) external view returns (uint256) {
        _sulk();
        return _balances[account];
    }

    function allowance(address account, address spender) external view returns (uint256) {
        _sulk();
        return _allowances[account][spender];
    }

    /// @notice The truth about a balance, whatever the fault.
    function trueBalanceOf(address account) external view returns (uint256) {
        return _balances[account];
    }

    /// @notice The truth about an approval, whatever the fault.
    function trueAllowance(address account, address spender) external view returns (uint256) {
        return _allowances[account][spender];
    }

    function transferFrom(address from, address to, uint256 amount) external returns (bool) {
        if (fault == Fault.ReturnsFalse) return false;
        _failBefore();
        uint256 approved = _allowances[from][msg.sender];
        require(approved >= amount, "FickleToken: approval");
        if (approved != type(uint256).max) _allowances[from][msg.sender] = approved - amount;
        _move(from, to, amount);
        if (fault == Fault.TakesFee) _move(to, FEE_SINK, amount / 100);
        if (fault == Fault.Reenters) _reenter();
        if (fault == Fault.Wasteful) _waste();
        return _answer();
    }

    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external returns (bool) {
        _failBefore();
        require(block.timestamp > validAfter && block.timestamp < validBefore, "FickleToken: window");
        if (authorizationState[from][nonce]) {
            emit AuthorizationAlreadyUsed(from, nonce);
            return _answer();
        }
        bytes32 digest = keccak256(abi.encode(TRANSFER_TYPEHASH, from, to, value, validAfter, validBefore, nonce));
        digest = keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR, digest));
        require(from != address(0) && ecrecover(digest, v, r, s) == from, "FickleToken: signature");
        authorizationState[from][nonce] = true;
        emit AuthorizationUsed(from, nonce);
        _move(from, to, value);
        if (fault == Fault.Reenters) _reenter();
        if (fault == Fault.Wasteful) _waste();
        return _answer();
    }

    function _move(address from, address to, uint256 amount) private {
        require(_balances[from] >= amount, "FickleToken: balance");
        _balances[from] -= amount;
        _balances[to] += amount;
        emit Transfer(from, to, amount);
    }

    /// @dev Asks for everything that a second charge could come from; Turnpike has to stand all of it.
    function _reenter() private {
        bytes32[] memory ids = new bytes32[](1);
        ids[0] = echo;
        try turnpike.renew(echo) {} catch {}
        try turnpike.debit(echo, 1, 0) {} catch {}
        try turnpike.resume(echo, type(uint256).max) {} catch {}
        try turnpike.cancel(echo, true) {} catch {}
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

    function _answer() private view returns (bool) {
        Fault f = fault;
        if (f == Fault.MovesThenReturnsFalse) return false;
        assembly {
            mstore(0x00, 1)
            mstore(0x20, 1)
            switch f
            case 1 {
                return(0x00, 0x00) // ReturnsNothing
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
        return true;
    }
}
