/**
 * The agent's preflight: what would make an init or a join fail later is found before anything changes. What is looked at and
 * what is good stands in the registry (internal/checks); here it stops an init or a join, or is only told.
 */
export { type MachineChecks, createMachineChecks } from './machine-checks.ts';
export { ownAddressRunnable, untilAddress } from './own-address.ts';
export {
  type PreflightOptions,
  type PreflightPorts,
  checkMachine,
  refuseOtherAddress,
  runPreflight,
} from './preflight.ts';
export { requireUsableTpm } from './usable-tpm.ts';
