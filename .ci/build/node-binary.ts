import { execFileSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { resolve } from 'node:path';

/** Debian's names of the architectures we build for, and npm's. */
export const ARCHITECTURES = { amd64: 'x64', arm64: 'arm64' } as const;
export type Architecture = keyof typeof ARCHITECTURES;

/**
 * The pinned Node for an architecture, without symbols (126 → 109 MB). Stripping takes a second, so the
 * result is kept, named by size and time of what it was made from.
 */
export function nodeBinary(root: string, architecture: Architecture): string {
  const pinned = resolve(root, `node_modules/node-linux-${ARCHITECTURES[architecture]}/bin/node`);
  if (!existsSync(pinned)) {
    throw new Error(
      `packing Node for ${architecture}: ${pinned} is missing; \`npm ci --cpu=${ARCHITECTURES[architecture]}\` brings it`,
    );
  }
  if (ARCHITECTURES[architecture] !== process.arch) return pinned; // strip only knows its own architecture
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
