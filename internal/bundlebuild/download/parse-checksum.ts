import { BundleBuildError } from '../errors.ts';

/**
 * The SHA-256 of one file from the checksum file of its project: a bare hash, or lines of `sha256sum`, exactly one of which must
 * name the file. Returns lower-case hex.
 * @throws BundleBuildError `bundlebuild-checksum-file`
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
    const why = found === undefined ? 'not listed' : 'listed more than once';
    throw new BundleBuildError('bundlebuild-checksum-file', `hash of ${file} not found: ${why} in ${url}`);
  }
  return found.sha256;
}
