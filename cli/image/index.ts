/**
 * `cluster image`: makes bootable images of machines on this workstation. `internal/image` has the formats; here are downloads,
 * programs and files.
 */
export type { ImageFormat } from './assemble-image.ts';
export { runImageBuild, type ImageBuildOptions } from './build-image.ts';
export { buildMachineDisks } from './machine-disks.ts';
