// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {BurnerWallet, FickleWallet, LiarWallet, TestWallet} from "./TestWallets.sol";

/// @title A factory of ERC-1271 wallets at addresses that are known before (CREATE2)
/// @notice As factories of smart wallets do, it returns an existing wallet instead of reverting.
contract WalletFactory {
    /// @notice The address of the owner's wallet, deployed or not.
    function addressOf(address owner, bytes32 salt) public view returns (address) {
        bytes32 code = keccak256(abi.encodePacked(_code(), abi.encode(owner)));
        return address(uint160(uint256(keccak256(abi.encodePacked(bytes1(0xff), address(this), salt, code)))));
    }

    function create(address owner, bytes32 salt) external virtual returns (address wallet) {
        wallet = addressOf(owner, salt);
        if (wallet.code.length == 0) _deploy(owner, salt);
    }

    function _code() internal pure virtual returns (bytes memory) {
        return type(TestWallet).creationCode;
    }

    function _deploy(address owner, bytes32 salt) internal virtual {
        new TestWallet{salt: salt}(owner);
    }
}

/// @notice Burns its gas or deploys nothing once it is armed; a trial before that meets an honest factory.
contract TrapFactory is WalletFactory {
    enum Trap {
        None,
        BurnGas,
        DeployNothing
    }

    Trap private _trap;

    function arm(Trap trap) external {
        _trap = trap;
    }

    function create(address owner, bytes32 salt) external override returns (address wallet) {
        if (_trap == Trap.BurnGas) {
            assembly {
                invalid()
            }
        }
        wallet = addressOf(owner, salt);
        if (_trap == Trap.None && wallet.code.length == 0) _deploy(owner, salt);
    }
}

/// @notice Its wallets burn the gas of their signature check.
contract BurnerFactory is WalletFactory {
    function _code() internal pure override returns (bytes memory) {
        return type(BurnerWallet).creationCode;
    }

    function _deploy(address owner, bytes32 salt) internal override {
        new BurnerWallet{salt: salt}(owner);
    }
}

/// @notice Its wallets answer as they are switched: no to any signature at first.
contract FickleFactory is WalletFactory {
    function _code() internal pure override returns (bytes memory) {
        return type(FickleWallet).creationCode;
    }

    function _deploy(address owner, bytes32 salt) internal override {
        new FickleWallet{salt: salt}(owner);
    }
}

/// @notice Its wallets accept signatures in simulations alone, where no gas is paid.
contract LiarFactory is WalletFactory {
    function _code() internal pure override returns (bytes memory) {
        return type(LiarWallet).creationCode;
    }

    function _deploy(address owner, bytes32 salt) internal override {
        new LiarWallet{salt: salt}(owner);
    }
}

/// @notice Returns a hundred kilobytes.
contract BombFactory is WalletFactory {
    function create(address owner, bytes32 salt) external override returns (address) {
        if (addressOf(owner, salt).code.length == 0) _deploy(owner, salt);
        assembly {
            return(0, 100000)
        }
    }
}

/// @notice Makes a call that a stranger has planted before it deploys.
contract ReentrantFactory is WalletFactory {
    address internal _target;
    bytes internal _data;

    function plant(address target, bytes calldata data) external {
        (_target, _data) = (target, data);
    }

    function create(address owner, bytes32 salt) external virtual override returns (address wallet) {
        (bool ok, ) = _target.call(_data);
        wallet = addressOf(owner, salt);
        if (wallet.code.length == 0) _deploy(owner, salt);
        ok;
    }
}

/// @notice Makes the planted call once it has deployed, in transactions alone: the wallet's own payment moves in its
/// deployment, and no trial shows it.
contract EagerFactory is ReentrantFactory {
    function create(address owner, bytes32 salt) external override returns (address wallet) {
        wallet = addressOf(owner, salt);
        if (wallet.code.length == 0) _deploy(owner, salt);
        if (tx.gasprice == 0) return wallet;
        (bool ok, ) = _target.call(_data);
        ok;
    }
}
