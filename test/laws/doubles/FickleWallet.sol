// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @notice An ERC-1271 wallet of one key that can be set to misbehave, now or later.
contract FickleWallet {
    enum Mood {
        Sound,
        Refuses,
        Reverts,
        BurnsGas,
        ReturnsMegabytes,
        AnswersShort
    }

    bytes4 private constant MAGIC = 0x1626ba7e;

    address public immutable owner;
    Mood public mood;

    constructor(address owner_) {
        owner = owner_;
    }

    function setMood(Mood mood_) external {
        mood = mood_;
    }

    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        if (mood == Mood.Refuses) return 0xffffffff;
        if (mood == Mood.Reverts) revert("FickleWallet: refused");
        if (mood == Mood.BurnsGas) {
            assembly {
                invalid()
            }
        }
        if (mood == Mood.ReturnsMegabytes) {
            assembly {
                return(0x80, 0x20000)
            }
        }
        if (mood == Mood.AnswersShort) {
            assembly {
                mstore(0x00, shl(224, 0x1626ba7e))
                return(0x00, 0x04)
            }
        }
        // Whatever follows the 65 bytes is ignored: some wallets pack more into a signature.
        if (signature.length < 65) return 0xffffffff;
        (bytes32 r, bytes32 s, uint8 v) = (bytes32(signature[:32]), bytes32(signature[32:64]), uint8(signature[64]));
        return ecrecover(digest, v, r, s) == owner ? MAGIC : bytes4(0xffffffff);
    }
}
