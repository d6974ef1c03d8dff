/**
 * Collateral: signed documents of AMD and Intel about their chips (certificates, CRLs, TCB info, QE identity). The operator's
 * CLI collects them in one bundle, the cluster distributes it, and validators never use the network.
 *
 *   files of the manufacturers ─readCollateralFile─▶ items ─encodeBundle─▶ bundle
 *                                                       ├─ageOf─▶ the table of ages
 *                                                       └─verifyBundle─▶ VerifiedBundle ─▶ stored, and used by validators
 *
 * No document is trusted because of where it is stored: each has the signature of its manufacturer and its own dates.
 */
export { ageOf, keepCurrentCrls, type CollateralAge } from './collateral-age.ts';
export {
  collateralFrom,
  encodeBundle,
  isBundle,
  manufacturerOf,
  MAX_UPLOAD_BYTES,
  parseBundle,
  VerifiedBundle,
  withoutDuplicates,
  type CollateralItem,
} from './collateral-bundle.ts';
export { verifyBundle, type ManufacturerTrust } from './check-collateral.ts';
export { CollateralError } from './errors.ts';
export { readCollateralFile } from './read-collateral-file.ts';
