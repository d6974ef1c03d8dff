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
export { ResetError, type ResetErrorCode, resetErrors } from './errors.ts';
export { resetRunnable, runPendingReset } from './pending-reset.ts';
export { ResetOrders, type ResetPaths } from './reset-orders.ts';
export { type ResetPorts, runReset } from './run-reset.ts';
