// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {P256} from "@openzeppelin/contracts/utils/cryptography/P256.sol";

/// @title An ERC-1271 wallet with one owner
contract TestWallet {
    address public immutable owner;

    error CallFailed();

    constructor(address owner_) {
        owner = owner_;
    }

    /// @notice Anyone may make it call: it holds nothing but test tokens.
    function execute(address target, bytes calldata data) external {
        (bool ok, ) = target.call(data);
        if (!ok) revert CallFailed();
    }

    /// @notice Not a view, unlike in IERC1271: a wallet that calls back could not be written otherwise.
    function isValidSignature(bytes32 hash, bytes calldata signature) public virtual returns (bytes4) {
        (address recovered, ECDSA.RecoverError err, ) = ECDSA.tryRecoverCalldata(hash, signature);
        bool valid = err == ECDSA.RecoverError.NoError && recovered == owner;
        return valid ? IERC1271.isValidSignature.selector : bytes4(0xffffffff);
    }
}

/// @notice Answers as its owner switches it, whatever the signature.
contract FickleWallet is TestWallet {
    bool private _yes;

    constructor(address owner_) TestWallet(owner_) {}

    function answer(bool yes) external {
        _yes = yes;
    }

    function isValidSignature(bytes32, bytes calldata) public view override returns (bytes4) {
        return _yes ? IERC1271.isValidSignature.selector : bytes4(0);
    }
}

/// @notice Accepts signatures in simulations alone, where no gas is paid.
contract LiarWallet is TestWallet {
    constructor(address owner_) TestWallet(owner_) {}

    function isValidSignature(bytes32 hash, bytes calldata signature) public override returns (bytes4) {
        return tx.gasprice == 0 ? super.isValidSignature(hash, signature) : bytes4(0);
    }
}

/// @notice Burns all the gas it is given.
contract BurnerWallet is TestWallet {
    constructor(address owner_) TestWallet(owner_) {}

    function isValidSignature(bytes32, bytes calldata) public pure override returns (bytes4) {
        assembly {
            invalid()
        }
    }
}

/// @notice Says yes, in a megabyte or as many bytes as it is set to.
contract BombWallet is TestWallet {
    uint256 private _size = 1_000_000;

    constructor(address owner_) TestWallet(owner_) {}

    function resize(uint256 bytes_) external {
        _size = bytes_;
    }

    function isValidSignature(bytes32, bytes calldata) public view override returns (bytes4) {
        bytes4 yes = IERC1271.isValidSignature.selector;
        uint256 size = _size;
        assembly {
            mstore(0, yes)
            return(0, size)
        }
    }
}

/// @notice Its owner is a passkey, whose signature it checks without a precompiled contract.
contract PasskeyWallet is TestWallet {
    bytes32 private immutable _x;
    bytes32 private immutable _y;

    constructor(bytes32 x, bytes32 y) TestWallet(address(0)) {
        (_x, _y) = (x, y);
    }

    /// @param signature r and s, 32 bytes each
    function isValidSignature(bytes32 hash, bytes calldata signature) public view override returns (bytes4) {
        (bytes32 r, bytes32 s) = abi.decode(signature, (bytes32, bytes32));
        return P256.verifySolidity(hash, r, s, _x, _y) ? IERC1271.isValidSignature.selector : bytes4(0xffffffff);
    }
}

/// @notice Says yes when it is given `need` gas.
contract GasProbeWallet is TestWallet {
    uint256 private _need;

    constructor(address owner_) TestWallet(owner_) {}

    function requireGas(uint256 need) external {
        _need = need;
    }

    function isValidSignature(bytes32, bytes calldata) public view override returns (bytes4) {
        return gasleft() < _need ? bytes4(0) : IERC1271.isValidSignature.selector;
    }
}

/// @notice Calls back before it says yes; under a static call, nothing can come of it.
contract ReentrantWallet is TestWallet {
    address private _target;
    bytes private _data;

    constructor(address owner_) TestWallet(owner_) {}

    function plant(address target, bytes calldata data) external {
        (_target, _data) = (target, data);
    }

    function isValidSignature(bytes32, bytes calldata) public override returns (bytes4) {
        (bool ok, ) = _target.call(_data);
        return ok ? bytes4(0) : IERC1271.isValidSignature.selector;
    }
}
