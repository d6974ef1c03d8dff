/**
 * The way back: a machine that its owner has ordered to be fresh.
 *
 * ```
 * curator ─ResetTask─▶ ResetOrders.accept: whose signature? for this node? ─▶ order on disk ─▶ the agent ends
 *                                                                                                  │ systemd
 * fresh machine ◀─ order gone ◀─ (TPM: restart of the machine) ◀─ wiped ◀─ stopped ◀─ carryOutReset ┘ before anything else
 * ```
 * The order is the first thing written and the last one removed, and every step may be repeated: whatever interrupts a
 * reset, the next start goes on with it. Only here is the one-way node lock undone.
 */
export { runReset, type ResetPorts } from './run-reset.ts';
export { ResetError, resetErrors, type ResetErrorCode } from './errors.ts';
export { ResetOrders, type ResetPaths } from './reset-orders.ts';
