// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {ERC721} from "@openzeppelin/contracts/token/ERC721/ERC721.sol";
import {TestToken} from "./TestToken.sol";

/// @title Tokens that misbehave, one fault each
/// @notice Sound until `arm(true)`, so that a subscription can be made first.
abstract contract FaultyToken is ERC20 {
    bool internal _armed;

    constructor() ERC20("Faulty", "FLT") {}

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function arm(bool armed) external {
        _armed = armed;
    }

    function transferFrom(address from, address to, uint256 amount) public override returns (bool) {
        return _armed ? _misbehave(from, to, amount) : super.transferFrom(from, to, amount);
    }

    function _move(address from, address to, uint256 amount) internal {
        super.transferFrom(from, to, amount);
    }

    function _misbehave(address from, address to, uint256 amount) internal virtual returns (bool);
}

/// @notice Moves, and returns nothing at all, as USDT does. No fault: it must work.
contract NothingToken is FaultyToken {
    function _misbehave(address from, address to, uint256 amount) internal override returns (bool) {
        _move(from, to, amount);
        assembly ("memory-safe") {
            return(0, 0)
        }
    }
}

/// @notice Moves nothing and says so only in its answer.
contract FalseToken is FaultyToken {
    function _misbehave(address, address, uint256) internal pure override returns (bool) {
        return false;
    }
}

/// @notice Moves, and then answers false.
contract MovesThenFalseToken is FaultyToken {
    function _misbehave(address from, address to, uint256 amount) internal override returns (bool) {
        _move(from, to, amount);
        return false;
    }
}

/// @notice Moves, and answers 2.
contract TwoToken is FaultyToken {
    function _misbehave(address from, address to, uint256 amount) internal override returns (bool) {
        _move(from, to, amount);
        assembly ("memory-safe") {
            mstore(0, 2)
            return(0, 32)
        }
    }
}

/// @notice Moves, and answers true and one word more.
contract WordyToken is FaultyToken {
    function _misbehave(address from, address to, uint256 amount) internal override returns (bool) {
        _move(from, to, amount);
        assembly ("memory-safe") {
            mstore(0, 1)
            return(0, 64)
        }
    }
}

/// @notice Moves, and answers true in a megabyte.
contract ReturnBombToken is FaultyToken {
    function _misbehave(address from, address to, uint256 amount) internal override returns (bool) {
        _move(from, to, amount);
        assembly {
            mstore(0, 1)
            return(0, 200000)
        }
    }
}

/// @notice Reverts with as much data as its gas can buy.
contract RevertBombToken is FaultyToken {
    function _misbehave(address, address, uint256) internal pure override returns (bool) {
        assembly {
            revert(0, 200000)
        }
    }
}

/// @notice Reverts as if it were Turnpike, to choose the reason that is recorded.
contract ForgingToken is FaultyToken {
    error RenewalNotDue(bytes32 idHash, uint256 dueAt);

    function _misbehave(address, address, uint256) internal pure override returns (bool) {
        revert RenewalNotDue(0, 0);
    }
}

/// @notice Burns all the gas it is given, in views too.
contract GasBurnerToken is FaultyToken {
    function balanceOf(address account) public view override returns (uint256) {
        if (_armed) _burnGas();
        return super.balanceOf(account);
    }

    function allowance(address owner, address spender) public view override returns (uint256) {
        if (_armed) _burnGas();
        return super.allowance(owner, spender);
    }

    function _misbehave(address, address, uint256) internal pure override returns (bool) {
        return _burnGas();
    }

    function _burnGas() private pure returns (bool) {
        assembly {
            invalid()
        }
    }
}

/// @notice Makes a call of the tester's choice in the middle of a transfer or a permit, and then moves.
contract ReentrantToken is FaultyToken {
    address private _target;
    bytes private _data;
    bool public reentered;
    bytes public answer;

    function plant(address target, bytes calldata data) external {
        (_target, _data, _armed) = (target, data, true);
    }

    /// @notice An EIP-3009 transfer that does nothing but call back.
    function transferWithAuthorization(
        address,
        address,
        uint256,
        uint256,
        uint256,
        bytes32,
        uint8,
        bytes32,
        bytes32
    ) external {
        _reenter();
    }

    /// @notice A permit that does nothing but call back.
    function permit(address, address, uint256, uint256, uint8, bytes32, bytes32) external {
        _reenter();
    }

    function _misbehave(address from, address to, uint256 amount) internal override returns (bool) {
        _reenter();
        _move(from, to, amount);
        return true;
    }

    function _reenter() private {
        _armed = false;
        (reentered, answer) = _target.call(_data);
    }
}

/// @notice Keeps a hundredth of every transfer for itself.
contract FeeToken is FaultyToken {
    function _misbehave(address from, address to, uint256 amount) internal override returns (bool) {
        _move(from, to, amount);
        _transfer(to, address(this), amount / 100);
        return true;
    }
}

/// @notice Refuses, as a paused token does, or one that blocks a party.
contract PausedToken is FaultyToken {
    error Paused();

    function _misbehave(address, address, uint256) internal pure override returns (bool) {
        revert Paused();
    }
}

/// @notice Refuses to move. Its balances and approvals are empty, and answer only when they are given `need` gas.
contract GasProbeToken is FaultyToken {
    uint256 private _need;

    error Refused();

    function requireGas(uint256 need) external {
        _need = need;
    }

    function balanceOf(address account) public view override returns (uint256) {
        return _armed ? _answer() : super.balanceOf(account);
    }

    function _misbehave(address, address, uint256) internal pure override returns (bool) {
        revert Refused();
    }

    function _answer() private view returns (uint256) {
        if (gasleft() < _need) {
            assembly {
                invalid()
            }
        }
        return 0;
    }
}

/// @notice Moves when it is given `need` gas; otherwise it burns what it has, in views too.
contract ThirstyToken is FaultyToken {
    uint256 private _need;

    function requireGas(uint256 need) external {
        _need = need;
    }

    function balanceOf(address account) public view override returns (uint256) {
        if (_armed && _need > type(uint32).max) _burnGas();
        return super.balanceOf(account);
    }

    function _misbehave(address from, address to, uint256 amount) internal override returns (bool) {
        if (gasleft() < _need) _burnGas();
        _move(from, to, amount);
        return true;
    }

    function _burnGas() private pure {
        assembly {
            invalid()
        }
    }
}

/// @notice An NFT. Its `transferFrom` has the shape of an ERC-20's, with an id where the amount is.
contract Collectible is ERC721 {
    constructor() ERC721("Collectible", "NFT") {}
}

/// @notice Claims every interface, also the one that ERC-165 says nobody has: so it has none.
contract BoastfulToken is TestToken {
    constructor() TestToken("Boastful", "BST", "1", 6) {}

    function supportsInterface(bytes4) external pure returns (bool) {
        return true;
    }
}

/// @notice Answers a used nonce with success and moves nothing, and has no bytes form, as some deployed tokens.
contract PaxosToken is TestToken {
    event AuthorizationAlreadyUsed(address indexed authorizer, bytes32 indexed nonce);

    error NoBytesForm();

    constructor() TestToken("Paxos Like", "PXL", "1", 6) {}

    function transferWithAuthorization(
        address,
        address,
        uint256,
        uint256,
        uint256,
        bytes32,
        bytes memory
    ) external pure override {
        revert NoBytesForm();
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
    ) internal virtual override {
        if (_used[from][nonce]) {
            emit AuthorizationAlreadyUsed(from, nonce);
            return;
        }
        super._authorized(typeHash, from, to, value, validAfter, validBefore, nonce, signature);
    }
}

/// @notice An EIP-3009 token that misbehaves as it is set to, and is sound until then.
contract WilfulToken is TestToken {
    enum Fault {
        None,
        /// the payee's transfer is less the fee, and the fee's comes after it
        FeeAfter,
        /// the fee's transfer comes first
        FeeBefore,
        /// reverts where `party` is the payer, the payee or the caller
        Blocked,
        Paused,
        /// returns false and moves nothing
        ReturnsFalse,
        /// every nonce reads as used
        UsedAlways,
        /// no nonce reads as used
        UsedNever,
        /// the reading of nonces reverts
        UsedReverts
    }

    Fault private _fault;
    address private _party;
    address private constant COLLECTOR = address(0xfee);

    error Refused();

    constructor(uint8 decimals_) TestToken("Wilful", "WIL", "1", decimals_) {}

    function set(Fault fault, address party) external {
        (_fault, _party) = (fault, party);
    }

    function authorizationState(address authorizer, bytes32 nonce) external view override returns (bool) {
        if (_fault == Fault.UsedReverts) revert Refused();
        if (_fault == Fault.UsedAlways) return true;
        return _fault != Fault.UsedNever && _used[authorizer][nonce];
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
        if (_fault == Fault.ReturnsFalse) {
            assembly ("memory-safe") {
                mstore(0, 0)
                return(0, 32)
            }
        }
        super._authorized(typeHash, from, to, value, validAfter, validBefore, nonce, signature);
    }

    function _update(address from, address to, uint256 value) internal override {
        Fault fault = _fault;
        bool isMint = from == address(0);
        if (isMint || fault == Fault.None || fault >= Fault.ReturnsFalse) return super._update(from, to, value);
        address party = _party;
        if (fault == Fault.Paused || party == from || party == to || party == msg.sender) revert Refused();
        if (fault == Fault.Blocked) return super._update(from, to, value);
        uint256 fee = value / 100;
        if (fault == Fault.FeeBefore) super._update(from, COLLECTOR, fee);
        super._update(from, to, value - fee);
        if (fault == Fault.FeeAfter) super._update(from, COLLECTOR, fee);
    }
}
