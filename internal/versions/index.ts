import manifest from '../../package.json' with { type: 'json' };

/** Domain layer: the version of this release. CLI and agent may differ by one minor version. */
export const VERSION: string = manifest.version;
