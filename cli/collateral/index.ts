/** The collateral with which a cluster verifies evidence of AMD and Intel processors: upload it, show it, copy it. */
export { collateralForMachine, runCollateralShow, runCollateralUpload } from './cluster-collateral.ts';
