// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {ERC20} from "@openzeppelin/contracts/token/ERC20/ERC20.sol";
import {TestWallet} from "./TestWallets.sol";

/// @title A token that calls its payer before it moves and its payee after, as ERC-777 does
contract HookedToken is ERC20 {
    constructor() ERC20("Hooked", "HKD") {}

    function mint(address to, uint256 amount) external {
        _mint(to, amount);
    }

    function transferFrom(address from, address to, uint256 amount) public override returns (bool) {
        _tell(from);
        super.transferFrom(from, to, amount);
        _tell(to);
        return true;
    }

    /// @notice Of no signature: its owner acts before it approves.
    function permit(address owner, address spender, uint256 value, uint256, uint8, bytes32, bytes32) external {
        _tell(owner);
        _approve(owner, spender, value);
    }

    function _tell(address party) private {
        if (party.code.length != 0) HookedAccount(party).onMove();
    }
}

/// @title A party that acts once, in the middle of the next charge
contract HookedAccount is TestWallet {
    address private _target;
    bytes private _data;

    event Acted(bool ok, bytes answer);

    constructor(address owner_) TestWallet(owner_) {}

    function plant(address target, bytes calldata data) external {
        (_target, _data) = (target, data);
    }

    function onMove() external {
        address target = _target;
        if (target == address(0)) return;
        _target = address(0);
        (bool ok, bytes memory answer) = target.call(_data);
        emit Acted(ok, answer);
    }
}
