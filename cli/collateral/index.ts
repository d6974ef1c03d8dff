/** The collateral of a cluster (documents of AMD and Intel that evidence is verified with): upload it, show it. */
export { runCollateralShow } from './collateral-show.ts';
export { runCollateralUpload } from './collateral-upload.ts';
