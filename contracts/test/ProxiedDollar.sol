// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/* solhint-disable no-inline-assembly */

// A dollar as the large ones are built, for measuring: each act costs what it costs on FiatTokenV2_2 behind its proxy. The
// double touches the same storage and accounts, so that it is as dear with them cold and with them warm. What an older
// compiler adds in between is measured, and `_pad` burns it. Worth nothing by construction: anyone may mint.

/// @title The part that checks signatures, in a library of its own as there
library DollarSignatures {
    uint256 private constant HALF_ORDER = 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0;

    /// @dev 65 bytes of a key only: the double has no contract wallets.
    function isValid(address signer, bytes32 digest, bytes memory signature) external view returns (bool) {
        if (signer.code.length != 0 || signature.length != 65) return false;
        bytes32 r;
        bytes32 s;
        uint8 v;
        assembly ("memory-safe") {
            r := mload(add(signature, 0x20))
            s := mload(add(signature, 0x40))
            v := byte(0, mload(add(signature, 0x60)))
        }
        return uint256(s) <= HALF_ORDER && ecrecover(digest, v, r, s) == signer;
    }
}

/// @title The implementation behind the proxy
contract ProxiedDollar {
    bytes32 private constant DOMAIN_TYPEHASH = keccak256(
        "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
    );
    bytes32 private constant PERMIT_TYPEHASH = keccak256(
        "Permit(address owner,address spender,uint256 value,uint256 nonce,uint256 deadline)"
    );
    bytes32 private constant TRANSFER_TYPEHASH = keccak256(
        "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
    );
    uint256 private constant DENIED = 1 << 255;

    // Words for `_pad`. With these a `transferFrom` transaction costs 53,284 (the original 53,292), one of a loop of 100
    // 17,396 (17,391), and a `transferWithAuthorization` 85,698 (85,696). Of a permit there is no figure of the original:
    // its share is that of checking a signature.
    uint256 private constant TRANSFER_FROM_PAD = 229;
    uint256 private constant AUTHORIZATION_PAD = 302;
    uint256 private constant PERMIT_PAD = 122;

    string public name;
    bool public paused;
    mapping(address account => uint256 balanceAndDenial) private _states;
    mapping(address owner => mapping(address spender => uint256 value)) public allowance;
    mapping(address authorizer => mapping(bytes32 nonce => bool used)) public authorizationState;
    mapping(address owner => uint256 nonce) public nonces;

    event Transfer(address indexed from, address indexed to, uint256 value);
    event Approval(address indexed owner, address indexed spender, uint256 value);
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);

    modifier whenNotPaused() {
        require(!paused, "paused");
        _;
    }

    modifier notDenied(address account) {
        require(_states[account] & DENIED == 0, "denied");
        _;
    }

    function initialize(string calldata name_) external {
        name = name_;
    }

    /// @notice The faucet: anyone may mint any amount to anyone.
    function mint(address to, uint256 value) external {
        _states[to] += value;
        emit Transfer(address(0), to, value);
    }

    function approve(address spender, uint256 value) external whenNotPaused returns (bool) {
        _approve(msg.sender, spender, value);
        return true;
    }

    /// @dev An allowance without limit is reduced like any other.
    function transferFrom(
        address from,
        address to,
        uint256 value
    ) external whenNotPaused notDenied(msg.sender) notDenied(from) notDenied(to) returns (bool) {
        uint256 allowed = allowance[from][msg.sender];
        require(value <= allowed, "allowance");
        _transfer(from, to, value);
        allowance[from][msg.sender] = allowed - value;
        _pad(TRANSFER_FROM_PAD);
        return true;
    }

    function permit(
        address owner,
        address spender,
        uint256 value,
        uint256 deadline,
        uint8 v,
        bytes32 r,
        bytes32 s
    ) external {
        permit(owner, spender, value, deadline, abi.encodePacked(r, s, v));
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
    ) external {
        transferWithAuthorization(from, to, value, validAfter, validBefore, nonce, abi.encodePacked(r, s, v));
    }

    function balanceOf(address account) external view returns (uint256) {
        return _states[account] & ~DENIED;
    }

    function version() external pure returns (string memory) {
        return "2";
    }

    function decimals() external pure returns (uint8) {
        return 6;
    }

    function permit(
        address owner,
        address spender,
        uint256 value,
        uint256 deadline,
        bytes memory signature
    ) public whenNotPaused {
        require(deadline >= block.timestamp, "expired");
        _requireSigned(
            owner,
            keccak256(abi.encode(PERMIT_TYPEHASH, owner, spender, value, nonces[owner]++, deadline)),
            signature
        );
        _approve(owner, spender, value);
        _pad(PERMIT_PAD);
    }

    function transferWithAuthorization(
        address from,
        address to,
        uint256 value,
        uint256 validAfter,
        uint256 validBefore,
        bytes32 nonce,
        bytes memory signature
    ) public whenNotPaused notDenied(from) notDenied(to) {
        require(block.timestamp > validAfter && block.timestamp < validBefore, "not now");
        require(!authorizationState[from][nonce], "used");
        _requireSigned(
            from,
            keccak256(abi.encode(TRANSFER_TYPEHASH, from, to, value, validAfter, validBefore, nonce)),
            signature
        );
        authorizationState[from][nonce] = true;
        emit AuthorizationUsed(from, nonce);
        _transfer(from, to, value);
        _pad(AUTHORIZATION_PAD);
    }

    function _approve(address owner, address spender, uint256 value) private {
        allowance[owner][spender] = value;
        emit Approval(owner, spender, value);
    }

    function _transfer(address from, address to, uint256 value) private {
        require(to != address(0) && value <= _states[from], "funds");
        _states[from] -= value;
        _states[to] += value;
        emit Transfer(from, to, value);
    }

    /// @dev The domain separator is made for each signature, out of a name in storage.
    function _requireSigned(address signer, bytes32 structHash, bytes memory signature) private view {
        bytes32 domain = keccak256(
            abi.encode(DOMAIN_TYPEHASH, keccak256(bytes(name)), keccak256("2"), block.chainid, address(this))
        );
        bytes32 digest = keccak256(abi.encodePacked("\x19\x01", domain, structHash));
        require(DollarSignatures.isValid(signer, digest, signature), "signature");
    }

    /// @dev Burns gas by a call of the identity precompile: six for each word, and more with many.
    function _pad(uint256 words) private view {
        assembly ("memory-safe") {
            pop(staticcall(gas(), 4, 0x00, mul(words, 0x20), 0x00, 0x00))
        }
    }
}

/// @title The proxy: its admin may not use the token through it
contract DollarProxy {
    bytes32 private constant IMPLEMENTATION = keccak256("org.zeppelinos.proxy.implementation");
    bytes32 private constant ADMIN = keccak256("org.zeppelinos.proxy.admin");

    constructor(address implementation, address admin) {
        (bytes32 implementationSlot, bytes32 adminSlot) = (IMPLEMENTATION, ADMIN);
        assembly ("memory-safe") {
            sstore(implementationSlot, implementation)
            sstore(adminSlot, admin)
        }
    }

    // solhint-disable-next-line payable-fallback, no-complex-fallback
    fallback() external {
        (bytes32 implementationSlot, bytes32 adminSlot) = (IMPLEMENTATION, ADMIN);
        assembly {
            if eq(caller(), sload(adminSlot)) {
                revert(0, 0)
            }
            calldatacopy(0, 0, calldatasize())
            let done := delegatecall(gas(), sload(implementationSlot), 0, calldatasize(), 0, 0)
            returndatacopy(0, 0, returndatasize())
            if iszero(done) {
                revert(0, returndatasize())
            }
            return(0, returndatasize())
        }
    }
}
