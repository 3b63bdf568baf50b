// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Laws} from "./Laws.t.sol";
import {vm} from "./Vm.sol";

/// @notice All laws over the same random sequences. Forge gives every invariant of a contract one seed, and so the same
/// sequences: the thirty-five of `Laws`, each alone, are the same acts thirty-five times.
contract Together is Laws {
    /// @dev How `check` ends when the law holds.
    error Held();

    /// @dev All of them after every act.
    function invariant_all_laws() external {
        bytes4[35] memory laws = _laws();
        for (uint256 i = 0; i < laws.length; ++i) {
            vm.warp(clock);
            try this.check(laws[i]) {} catch (bytes memory end) {
                if (bytes4(end) == Held.selector) continue;
                assembly ("memory-safe") {
                    revert(add(end, 0x20), mload(end))
                }
            }
        }
    }

    /// @dev What the model and the witness see at each act, and everything at the end of a sequence: a fifteenth of the
    /// time, for premises that rarely come true. tools/forge.cjs sets how many.
    function invariant_witness() external view {
        for (uint256 law = 1; law <= 35; ++law) _uphold(law);
    }

    /// @dev Always reverts, so that what a law tries out is undone before the next one.
    function check(bytes4 law) external {
        (bool ok, bytes memory end) = address(this).call(abi.encodeWithSelector(law));
        if (ok) revert Held();
        assembly ("memory-safe") {
            revert(add(end, 0x20), mload(end))
        }
    }

    function _laws() private pure returns (bytes4[35] memory) {
        return
            [
                this.invariant_L01_contracts_hold_nothing.selector,
                this.invariant_L02_payees_get_what_was_charged.selector,
                this.invariant_L03_at_most_one_charge_per_period.selector,
                this.invariant_L04_no_charge_before_due.selector,
                this.invariant_L05_no_more_charges_than_periods.selector,
                this.invariant_L06_no_arrears_after_a_lapse.selector,
                this.invariant_L07_charged_as_agreed.selector,
                this.invariant_L08_debits_stay_below_the_cap.selector,
                this.invariant_L09_a_cycle_starts_unspent.selector,
                this.invariant_L10_a_debit_index_succeeds_once.selector,
                this.invariant_L11_nothing_moves_after_the_end.selector,
                this.invariant_L12_only_the_subscriber_changes_it.selector,
                this.invariant_L13_the_dead_stay_dead.selector,
                this.invariant_L14_a_deprecated_plan_gains_nothing.selector,
                this.invariant_L15_terms_never_change.selector,
                this.invariant_L16_a_batch_equals_its_singles.selector,
                this.invariant_L17_a_failed_item_leaves_no_trace.selector,
                this.invariant_L18_gas_per_item_is_bounded.selector,
                this.invariant_L19_status_agrees_with_the_charges.selector,
                this.invariant_L20_no_act_touches_another_record.selector,
                this.invariant_L21_only_those_who_agreed_pay.selector,
                this.invariant_L22_events_rebuild_the_state.selector,
                this.invariant_L23_renew_and_cancel_succeed.selector,
                this.invariant_L24_an_authorization_moves_once.selector,
                this.invariant_L25_boundaries_are_the_calendars.selector,
                this.invariant_L26_later_is_never_shorter.selector,
                this.invariant_L27_the_end_holds.selector,
                this.invariant_L28_a_change_applies_once.selector,
                this.invariant_L29_only_a_voucher_lowers_the_first_charge.selector,
                this.invariant_L30_an_introduction_gives_no_credit.selector,
                this.invariant_L31_a_payee_moves_slowly.selector,
                this.invariant_L32_a_voided_id_never_signs_up.selector,
                this.invariant_L33_charged_as_signed.selector,
                this.invariant_L34_plain_records_read_no_further_word.selector,
                this.invariant_L35_a_stopped_plan_charges_nothing.selector
            ];
    }
}
