/**
 * Collateral on its way from the workspace to the cluster:
 *
 *     manufacturers ─refresh─▶ workspace ─hand-on─▶ curator ─▶ etcd ─▶ every join service
 *
 * Nodes need no internet for it, and nobody believes it for where it lies: the curator and each validator verify it.
 */
export { runCollateralHandOn } from './hand-on.ts';
export { runCollateralShow } from './show.ts';
export { HandOnError, handOnErrors, type HandOnErrorCode } from './errors.ts';
