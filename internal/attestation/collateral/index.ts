/**
 * Collateral: what AMD and Intel say about their chips beside the evidence itself. The operator's CLI gathers it into
 * one bundle, the cluster hands it on, and validators never touch a network.
 *
 *   files of the manufacturers ─readCollateralFile─▶ items ─encodeBundle─▶ bundle ─collateralFrom─▶ validators
 *                                                       ├─ageOf─▶ the table of ages
 *                                                       └─checkCollateral─▶ may take the place of an older one
 *
 * Nothing here is trusted for where it lies: every document carries its manufacturer's signature and its own dates.
 */
export { ageOf, type CollateralAge } from './collateral-age.ts';
export {
  collateralFrom,
  encodeBundle,
  manufacturerOf,
  MAX_UPLOAD_BYTES,
  parseBundle,
  type CollateralBundle,
  type ProcessorCollateral,
} from './collateral-bundle.ts';
export {
  checkCollateral,
  verifyBundle,
  type CollateralCheckOptions,
  type ManufacturerTrust,
  type VerifiedBundle,
} from './check-collateral.ts';
export { CollateralError, collateralErrors, type CollateralErrorCode } from './errors.ts';
export { withoutDuplicates, type CollateralItem } from './collateral-item.ts';
export { readCollateralFile } from './read-collateral-file.ts';
export { keepCurrentCrls } from './replacement.ts';
