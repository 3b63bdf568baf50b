// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

// A dollar as the large ones are built: behind a proxy that knows its admin, pausable, with a denylist of its own, a domain
// separator that is made again for each signature, and a look whether the signer is a contract. For measuring alone: whatever
// these tokens do beside an authorized transfer is missing, and anyone may mint.

contract ProxiedDollar {
    event Transfer(address indexed from, address indexed to, uint256 value);
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);

    bytes32 private constant TRANSFER_TYPEHASH =
        keccak256(
            "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)"
        );
    bytes32 private constant DOMAIN_TYPEHASH =
        keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");

    string public name;
    bool public paused;
    mapping(address => uint256) public balanceOf;
    mapping(address => bool) public denied;
    mapping(address => mapping(bytes32 => bool)) public authorizationState;

    function initialize(string calldata named) external {
        name = named;
    }

    function mint(address[] calldata to, uint256 value) external {
        for (uint256 i = 0; i < to.length; ++i) balanceOf[to[i]] += value;
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
        require(!paused, "paused");
        require(!denied[from] && !denied[to], "denied");
        require(block.timestamp > validAfter && block.timestamp < validBefore, "not now");
        require(!authorizationState[from][nonce], "used");
        bytes32 digest = keccak256(
            abi.encodePacked(
                "\x19\x01",
                domainSeparator(),
                keccak256(abi.encode(TRANSFER_TYPEHASH, from, to, value, validAfter, validBefore, nonce))
            )
        );
        require(from.code.length == 0, "a contract");
        require(uint256(s) <= 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0, "malleable");
        require(ecrecover(digest, v, r, s) == from, "signature");
        authorizationState[from][nonce] = true;
        emit AuthorizationUsed(from, nonce);
        require(to != address(0) && balanceOf[from] >= value, "funds");
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }

    function domainSeparator() public view returns (bytes32) {
        return
            keccak256(
                abi.encode(DOMAIN_TYPEHASH, keccak256(bytes(name)), keccak256("2"), block.chainid, address(this))
            );
    }
}

contract DollarProxy {
    bytes32 private constant IMPLEMENTATION = keccak256("org.zeppelinos.proxy.implementation");
    bytes32 private constant ADMIN = keccak256("org.zeppelinos.proxy.admin");

    constructor(address implementation, address admin) {
        bytes32 at = IMPLEMENTATION;
        bytes32 owner = ADMIN;
        assembly {
            sstore(at, implementation)
            sstore(owner, admin)
        }
    }

    fallback() external payable {
        bytes32 at = IMPLEMENTATION;
        bytes32 owner = ADMIN;
        assembly {
            if eq(caller(), sload(owner)) {
                revert(0, 0)
            }
            calldatacopy(0, 0, calldatasize())
            let done := delegatecall(gas(), sload(at), 0, calldatasize(), 0, 0)
            returndatacopy(0, 0, returndatasize())
            switch done
            case 0 {
                revert(0, returndatasize())
            }
            default {
                return(0, returndatasize())
            }
        }
    }
}
