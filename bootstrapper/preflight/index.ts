/**
 * Checks of this machine by the agent: before an init or a join changes anything, and of the machine's own
 * address while the agent runs. The checks themselves are in internal/preflight. This directory decides
 * whether a failed check stops an init or a join, or is only reported.
 */
export { type MachineChecks, createMachineChecks } from './machine-checks.ts';
export { ownAddressRunnable, untilAddress } from './own-address.ts';
export { refuseOtherAddress } from './preflight.ts';
export { requireUsableTpm } from './usable-tpm.ts';
