import { BundleMakingError } from './errors.ts';

/**
 * The hash of one file as a project publishes it: a bare hash, or lines of `sha256sum`, where exactly
 * one must name the file.
 * @throws BundleMakingError `bundlebuild-checksum-file`
 */
export function parseChecksum(text: string, file: string, url: string): string {
  const lines = text.split('\n').flatMap((line) => {
    const match = /^([0-9a-fA-F]{64})(?:\s+\*?(\S+))?\s*$/.exec(line);
    return match?.[1] === undefined ? [] : [{ sha256: match[1].toLowerCase(), name: match[2] }];
  });
  const named = lines.filter((line) => line.name?.split('/').at(-1) === file);
  const bare = lines.filter((line) => line.name === undefined);
  const [found, ...others] = named.length > 0 ? named : bare;
  if (found === undefined || others.length > 0) {
    const why = found === undefined ? 'does not name it' : 'names it more than once';
    throw new BundleMakingError('bundlebuild-checksum-file', `hash of ${file} not found: ${url} ${why}`);
  }
  return found.sha256;
}
