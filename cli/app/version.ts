import manifest from '../../package.json' with { type: 'json' };

/** Version of this program, "MAJOR.MINOR.PATCH". */
export const PROGRAM_VERSION: string = manifest.version;
