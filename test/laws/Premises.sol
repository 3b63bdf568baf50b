// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {vm} from "./Vm.sol";

/// @notice What has to happen for a law to be put to the test at all.
enum Premise {
    Charge,
    RenewalOnTime,
    RenewalAfterLapse,
    RenewalTooEarly,
    RenewalOfExpired,
    RenewalByStranger,
    DuplicateInBatch,
    ResumeAfterPause,
    ResumeAfterExpiry,
    ResumeWithoutCharge,
    PlanChange,
    PlanChangeRefused,
    PlanChangeCreditTooLarge,
    Debit,
    DebitAtTheCap,
    DebitAboveTheCap,
    DebitInGrace,
    DebitWhileEnding,
    DebitStale,
    DebitByStranger,
    NewCycleAfterDebits,
    CapLowered,
    CapTooLarge,
    Signup,
    SignupOfUsedId,
    SignupToDeprecated,
    SignupByPermit,
    SignupPermitSubmittedFirst,
    Pause,
    CancelNow,
    CancelAtPeriodEnd,
    CancelByProvider,
    CancelRelayedByProvider,
    CancelWhileTokenFails,
    ActOnCancelled,
    Rekey,
    LastVersion,
    ActOfStranger,
    ActSigned,
    ActSignedByWallet,
    SignatureFlawed,
    SignatureReplayed,
    MoveToDeprecated,
    PaymentIntoDeprecated,
    BatchItemFailed,
    BatchStarved,
    BatchAgainstSingles,
    ItemPoisoned,
    TokenBurnsGas,
    TokenReturnsMegabytes,
    TokenReenters,
    TokenLies,
    FundsMissing,
    ApprovalMissing,
    LivenessTried,
    YearsPass,
    Multicall,
    PaymentSettled,
    PaymentRefused,
    AuthorizationUsedAgain,
    AuthorizationAltered,
    ChargeOfMonths,
    LateAnchor,
    ShortMonth,
    LapseOfMonths,
    VoucherUsed,
    VoucherFlawed,
    FreeSignup,
    PlanChangeInIntro,
    UntilSet,
    UntilReached,
    RenewalBeforeUntil,
    DebitAfterUntil,
    ChangeScheduled,
    ChangeApplied,
    ChangeIntoDeprecated,
    ChangeToShorter,
    ChangeDropped,
    Voided,
    SignupOfVoided,
    ShownTermsFlawed,
    SignedBeforeMove,
    PayeeProposed,
    PayeeWithdrawn,
    PayeeTooEarly,
    PayeeMoved,
    PlanTransferred,
    RightRevoked,
    PlainRecordRead,
    MulticallSignup,
    PlanStopped,
    ActOnStopped,
    ChangeFromStopped,
    PayeeConfirmed,
    TermsDiffer
}

/// @notice Counts the premises and appends the counts of a run to a file, for tools/forge.cjs to add up.
abstract contract Premises {
    string private constant FILE = "out/premises/laws";
    mapping(Premise premise => uint256) private _counts;

    function _saw(Premise premise) internal {
        ++_counts[premise];
    }

    function _reportPremises() internal {
        bytes memory line;
        string[] memory names = _premiseNames();
        for (uint256 i = 0; i < names.length; ++i) {
            line = abi.encodePacked(line, names[i], "=", _decimal(_counts[Premise(i)]), ";");
        }
        vm.writeLine(FILE, string(line));
    }

    function _decimal(uint256 value) private pure returns (bytes memory digits) {
        do {
            digits = abi.encodePacked(uint8(48 + (value % 10)), digits);
            value /= 10;
        } while (value != 0);
    }

    /// @dev In the order of the enum.
    function _premiseNames() private pure returns (string[] memory names) {
        names = new string[](uint256(type(Premise).max) + 1);
        uint256 i;
        names[i++] = "charge";
        names[i++] = "renewal on time";
        names[i++] = "renewal after lapse";
        names[i++] = "renewal too early";
        names[i++] = "renewal of expired";
        names[i++] = "renewal by stranger";
        names[i++] = "duplicate in batch";
        names[i++] = "resume after pause";
        names[i++] = "resume after expiry";
        names[i++] = "resume without charge";
        names[i++] = "plan change";
        names[i++] = "plan change refused";
        names[i++] = "plan change credit too large";
        names[i++] = "debit";
        names[i++] = "debit at the cap";
        names[i++] = "debit above the cap";
        names[i++] = "debit in grace";
        names[i++] = "debit while ending";
        names[i++] = "debit stale";
        names[i++] = "debit by stranger";
        names[i++] = "new cycle after debits";
        names[i++] = "cap lowered";
        names[i++] = "cap too large";
        names[i++] = "signup";
        names[i++] = "signup of used id";
        names[i++] = "signup to deprecated";
        names[i++] = "signup by permit";
        names[i++] = "signup permit submitted first";
        names[i++] = "pause";
        names[i++] = "cancel now";
        names[i++] = "cancel at period end";
        names[i++] = "cancel by provider";
        names[i++] = "cancel relayed by provider";
        names[i++] = "cancel while token fails";
        names[i++] = "act on cancelled";
        names[i++] = "rekey";
        names[i++] = "last version";
        names[i++] = "act of stranger";
        names[i++] = "act signed";
        names[i++] = "act signed by wallet";
        names[i++] = "signature flawed";
        names[i++] = "signature replayed";
        names[i++] = "move to deprecated";
        names[i++] = "payment into deprecated";
        names[i++] = "batch item failed";
        names[i++] = "batch starved";
        names[i++] = "batch against singles";
        names[i++] = "item poisoned";
        names[i++] = "token burns gas";
        names[i++] = "token returns megabytes";
        names[i++] = "token reenters";
        names[i++] = "token lies";
        names[i++] = "funds missing";
        names[i++] = "approval missing";
        names[i++] = "liveness tried";
        names[i++] = "years pass";
        names[i++] = "multicall";
        names[i++] = "payment settled";
        names[i++] = "payment refused";
        names[i++] = "authorization used again";
        names[i++] = "authorization altered";
        names[i++] = "charge of months";
        names[i++] = "late anchor";
        names[i++] = "short month";
        names[i++] = "lapse of months";
        names[i++] = "voucher used";
        names[i++] = "voucher flawed";
        names[i++] = "free signup";
        names[i++] = "plan change in intro";
        names[i++] = "until set";
        names[i++] = "until reached";
        names[i++] = "renewal before until";
        names[i++] = "debit after until";
        names[i++] = "change scheduled";
        names[i++] = "change applied";
        names[i++] = "change into deprecated";
        names[i++] = "change to shorter";
        names[i++] = "change dropped";
        names[i++] = "voided";
        names[i++] = "signup of voided";
        names[i++] = "shown terms flawed";
        names[i++] = "signed before move";
        names[i++] = "payee proposed";
        names[i++] = "payee withdrawn";
        names[i++] = "payee too early";
        names[i++] = "payee moved";
        names[i++] = "plan transferred";
        names[i++] = "right revoked";
        names[i++] = "plain record read";
        names[i++] = "multicall signup";
        names[i++] = "plan stopped";
        names[i++] = "act on stopped";
        names[i++] = "change from stopped";
        names[i++] = "payee confirmed";
        names[i++] = "terms differ";
    }
}
