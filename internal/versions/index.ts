import manifest from '../../package.json' with { type: 'json' };

/** Domain: the version of this release. CLI and agent may differ by one minor version. */
export const VERSION: string = manifest.version;
