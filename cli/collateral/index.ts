/** The collateral that a cluster verifies evidence of AMD and Intel processors with: upload it, show it, copy it. */
export { collateralForMachine, runCollateralShow, runCollateralUpload } from './cluster-collateral.ts';
