/** What makes an init fail later is found before anything changes: facts gathered at the edge, judged by pure checks. */
export { PreflightError, preflightErrors, type PreflightErrorCode } from './errors.ts';
export { refuseOtherAddress, runPreflight, type PreflightOptions, type PreflightPorts } from './preflight.ts';
