import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { resolve } from 'node:path';

/** The supported architectures: Debian's name → npm's name. */
export const ARCHITECTURES = { amd64: 'x64', arm64: 'arm64' } as const;
/** See `ARCHITECTURES`. */
export type Architecture = keyof typeof ARCHITECTURES;

/** The directory of the npm package that has the pinned Node, below the root of the checkout. */
export function nodePackage(architecture: Architecture): string {
  return `node_modules/node-linux-${ARCHITECTURES[architecture]}`;
}

/**
 * Returns the path of the pinned Node for an architecture, without symbols (109 instead of 126 MB). The result is cached under the size
 * and time of the original.
 */
export function nodeBinary(root: string, architecture: Architecture): string {
  const pinned = resolve(root, nodePackage(architecture), 'bin/node');
  if (!existsSync(pinned)) {
    throw new Error(
      `Node for ${architecture} not found at ${pinned}: run \`npm ci --cpu=${ARCHITECTURES[architecture]}\``,
    );
  }
  if (ARCHITECTURES[architecture] !== process.arch) return pinned; // strip supports only its own architecture
  const { size, mtimeMs } = statSync(pinned);
  const directory = resolve(root, 'node_modules/.cache/build');
  const stripped = resolve(directory, `node-${architecture}-${size}-${Math.round(mtimeMs)}`);
  if (existsSync(stripped)) return stripped;
  mkdirSync(directory, { recursive: true });
  const partial = `${stripped}.${process.pid}`;
  copyFileSync(pinned, partial);
  execFileSync('strip', ['--strip-all', partial]);
  if (execFileSync(partial, ['--version']).toString() !== execFileSync(pinned, ['--version']).toString()) {
    throw new Error(`stripping ${pinned}: the result does not run`);
  }
  renameSync(partial, stripped);
  return stripped;
}
