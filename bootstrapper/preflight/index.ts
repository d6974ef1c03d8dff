/**
 * The agent's preflight: what would make an init or a join fail later is found before anything changes. What is looked at and
 * what is good stands in the registry (internal/checks); here it stops an init or a join, or is only told.
 */
export {
  checkMachine,
  refuseOtherAddress,
  runPreflight,
  type PreflightOptions,
  type PreflightPorts,
} from './preflight.ts';
