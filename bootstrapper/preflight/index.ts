/**
 * Checks of this machine by the agent: before an init or a join changes anything, and its own address while it runs.
 * The checks themselves are in internal/preflight; here a failed one stops an init or a join, or is only reported.
 */
export { type MachineChecks, createMachineChecks } from './machine-checks.ts';
export { ownAddressRunnable, untilAddress } from './own-address.ts';
export { type PreflightOptions, type PreflightPorts, refuseOtherAddress } from './preflight.ts';
export { requireUsableTpm } from './usable-tpm.ts';
