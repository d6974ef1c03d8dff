import {
  chmodSync,
  copyFileSync,
  lutimesSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** One entry of a package: a directory, a copy of a file, or a file with this text. */
export type Entry = { readonly path: string; readonly mode: number } & (
  | { readonly kind: 'directory' }
  | { readonly kind: 'copy'; readonly from: string }
  | { readonly kind: 'text'; readonly text: string | Uint8Array }
);

/**
 * Writes the entries to a temporary directory, with their modes and `epochSeconds` as the time of all files, and runs `work` on it.
 * `more` adds files that do not belong to the package, like its control file.
 */
export function withStage<T>(
  options: {
    readonly entries: readonly Entry[];
    readonly epochSeconds: number;
    readonly more?: (stage: string) => void;
  },
  work: (stage: string) => T,
): T {
  const stage = mkdtempSync(join(tmpdir(), 'cluster-package-'));
  try {
    for (const entry of options.entries) place(stage, entry);
    options.more?.(stage);
    setModes(stage, options.entries);
    for (const path of walk(stage)) lutimesSync(path, options.epochSeconds, options.epochSeconds);
    return work(stage);
  } finally {
    rmSync(stage, { recursive: true, force: true });
  }
}

export function place(stage: string, entry: Entry): void {
  const target = join(stage, entry.path);
  mkdirSync(entry.kind === 'directory' ? target : dirname(target), { recursive: true });
  if (entry.kind === 'copy') copyFileSync(entry.from, target);
  if (entry.kind === 'text') writeFileSync(target, entry.text);
  chmodSync(target, entry.mode);
}

/** The size of all files below a directory, in KiB. */
export function sizeInKiB(directory: string): number {
  const sizes = [...walk(directory)].map((path) => statSync(path).size);
  return Math.ceil(sizes.reduce((sum, size) => sum + size, 0) / 1024);
}

/** Writes one entry, independent of the umask: directories are 0755 unless they are entries themselves. */
function setModes(stage: string, entries: readonly Entry[]): void {
  for (const path of walk(stage)) if (statSync(path).isDirectory()) chmodSync(path, 0o755);
  for (const { path, mode } of entries) chmodSync(join(stage, path), mode);
}

function* walk(directory: string): Generator<string> {
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    if (entry.isDirectory()) yield* walk(path);
    else yield path;
  }
  yield directory;
}
