/**
 * The end of an init: builds the result for the owner, and records the signature with which the owner
 * acknowledges it.
 */
export { outcomeRunnable } from './outcome-runnable.ts';
export { ownershipRunnable } from './ownership.ts';
